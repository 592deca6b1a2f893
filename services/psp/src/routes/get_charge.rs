//! `GET /v1/charges/{id}`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use uuid::Uuid;

use crate::Error;
use crate::domain::charge::Charge;
use crate::provider::Provider;
use crate::store::charges;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Path(id): Path<String>,
) -> Result<Json<Charge>, Error> {
    // A malformed id cannot exist.
    let id: Uuid = id.parse().map_err(|_| Error::NotFound)?;
    let mut connection = provider.pool.acquire().await?;
    let charge = charges::by_id(&mut connection, id).await?;
    charge.map(Json).ok_or(Error::NotFound)
}
