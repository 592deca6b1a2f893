//! `GET /v1/ledger?after=&limit=`: all charges, oldest first, page by page, each with its refunds.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::charge_view::{ChargeView, with_refunds};
use super::extract::Parameters;
use super::page::{Cursor, Page};
use crate::Error;
use crate::provider::Provider;
use crate::store::charges;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<ChargeView>>, Error> {
    let cutoff = provider.cutoff();
    let mut connection = provider.pool.acquire().await?;
    let mut charges = charges::page(&mut connection, cursor.after(), cursor.rows_to_read()).await?;
    charges.retain(|charge| cutoff.shows(charge.created_at));
    let next = cursor.cut(&mut charges, |charge| charge.id);
    let data = with_refunds(&mut connection, charges, cutoff).await?;
    Ok(Json(Page { data, next }))
}
