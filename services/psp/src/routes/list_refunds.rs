//! `GET /v1/refunds?key=`, `?reference=` or `?charge_id=`: refunds. As with charges, an empty list
//! means that no such refund exists, and a key in flight gets a 409.

use std::slice;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::extract::Parameters;
use crate::Error;
use crate::domain::refund::Refund;
use crate::provider::Provider;
use crate::store::refunds;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    key: Option<String>,
    reference: Option<String>,
    charge_id: Option<Uuid>,
}

#[derive(Serialize)]
pub(super) struct List {
    data: Vec<Refund>,
}

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Parameters(filter): Parameters<Filter>,
) -> Result<Json<List>, Error> {
    let cutoff = provider.cutoff();
    let mut connection = provider.pool.acquire().await?;
    let mut data = match (filter.key, filter.reference, filter.charge_id) {
        (Some(key), None, None) => {
            // Checked before the books are read. If the refund ends in between, the books contain
            // it.
            let in_flight = provider.is_in_flight(&key);
            let found = refunds::by_key(&mut connection, &key).await?;
            if found.is_empty() && in_flight {
                return Err(Error::KeyInFlight);
            }
            found
        }
        (None, Some(reference), None) => refunds::by_reference(&mut connection, &reference).await?,
        (None, None, Some(id)) => {
            refunds::of_charges(&mut connection, slice::from_ref(&id)).await?
        }
        _ => return Err(Error::Query("key, reference and charge_id")),
    };
    data.retain(|refund| cutoff.shows(refund.created_at));
    Ok(Json(List { data }))
}
