//! `GET /v1/charges/{id}`: a charge with its refunds.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use uuid::Uuid;

use super::charge_view::{ChargeView, with_refunds};
use crate::Error;
use crate::provider::Provider;
use crate::store::charges;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Path(id): Path<String>,
) -> Result<Json<ChargeView>, Error> {
    // A malformed id cannot exist.
    let id: Uuid = id.parse().map_err(|_| Error::NotFound)?;
    let mut connection = provider.pool.acquire().await?;
    let charge = charges::by_id(&mut connection, id).await?;
    let cutoff = provider.cutoff();
    let shown = charge.filter(|charge| cutoff.shows(charge.created_at));
    let found = with_refunds(&mut connection, shown.into_iter().collect(), cutoff).await?;
    found.into_iter().next().map(Json).ok_or(Error::NotFound)
}
