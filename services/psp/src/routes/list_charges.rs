//! `GET /v1/charges?key=` or `?reference=`: what became of a request whose answer was lost. An
//! empty list is the provider's word that no such charge exists.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::charging::Provider;
use crate::domain::charge::Charge;
use crate::store::charges;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    key: Option<String>,
    reference: Option<String>,
}

#[derive(Serialize)]
pub(super) struct List {
    data: Vec<Charge>,
}

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Query(filter): Query<Filter>,
) -> Result<Json<List>, Error> {
    let mut connection = provider.pool.acquire().await?;
    let data = match (filter.key, filter.reference) {
        (Some(key), None) => charges::by_key(&mut connection, &key).await?,
        (None, Some(reference)) => charges::by_reference(&mut connection, &reference).await?,
        _ => return Err(Error::Query),
    };
    Ok(Json(List { data }))
}
