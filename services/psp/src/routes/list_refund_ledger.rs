//! `GET /v1/ledger/refunds?after=&limit=`: all refunds, oldest first, page by page. The ledger of
//! charges shows a new refund beside its charge, which may be on a page from long ago.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::extract::Parameters;
use super::page::{Cursor, Page};
use crate::Error;
use crate::domain::refund::Refund;
use crate::provider::Provider;
use crate::store::refunds;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Parameters(cursor): Parameters<Cursor>,
) -> Result<Json<Page<Refund>>, Error> {
    let cutoff = provider.cutoff();
    let mut connection = provider.pool.acquire().await?;
    let mut data = refunds::page(&mut connection, cursor.after(), cursor.rows_to_read()).await?;
    data.retain(|refund| cutoff.shows(refund.created_at));
    let next = cursor.cut(&mut data, |refund| refund.id);
    Ok(Json(Page { data, next }))
}
