//! `GET /v1/charges?key=` or `?reference=`: the outcome of a request whose response was lost, with the
//! refunds of each charge. An empty list means that no such charge exists. While a charge under the key is in progress, the
//! response is a 409.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::charge_view::{ChargeView, with_refunds};
use super::extract::Parameters;
use crate::Error;
use crate::provider::Provider;
use crate::store::charges;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    key: Option<String>,
    reference: Option<String>,
}

#[derive(Serialize)]
pub(super) struct List {
    data: Vec<ChargeView>,
}

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Parameters(filter): Parameters<Filter>,
) -> Result<Json<List>, Error> {
    let cutoff = provider.cutoff();
    let mut connection = provider.pool.acquire().await?;
    let mut found = match (filter.key, filter.reference) {
        (Some(key), None) => {
            // Checked before the books are read. If the charge ends in between, the books contain
            // it.
            let in_flight = provider.is_in_flight(&key);
            let found = charges::by_key(&mut connection, &key).await?;
            if found.is_empty() && in_flight {
                return Err(Error::KeyInFlight);
            }
            found
        }
        (None, Some(reference)) => charges::by_reference(&mut connection, &reference).await?,
        _ => return Err(Error::Query("key and reference")),
    };
    found.retain(|charge| cutoff.shows(charge.created_at));
    let data = with_refunds(&mut connection, found, cutoff).await?;
    Ok(Json(List { data }))
}
