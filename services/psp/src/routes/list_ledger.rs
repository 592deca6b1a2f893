//! `GET /v1/ledger?after=&limit=`: all charges, oldest first, page by page.
//!
//! Ids are given out just before the commit, so at the very end a row may appear before one that is
//! already listed. Who follows the ledger's tip starts again a statement's time-out earlier.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Error;
use crate::charging::Provider;
use crate::domain::charge::Charge;
use crate::store::charges;

/// Largest page; a larger limit is cut down to it.
const PAGE_ROWS_MAX: u32 = 1_000;
const PAGE_ROWS_DEFAULT: u32 = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cursor {
    after: Option<Uuid>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct Page {
    data: Vec<Charge>,
    /// The next `after`; absent on the last page.
    next: Option<Uuid>,
}

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Query(cursor): Query<Cursor>,
) -> Result<Json<Page>, Error> {
    let limit = cursor
        .limit
        .unwrap_or(PAGE_ROWS_DEFAULT)
        .clamp(1, PAGE_ROWS_MAX);
    let mut connection = provider.pool.acquire().await?;
    // One row more than asked for tells whether there is a next page.
    let after = cursor.after.unwrap_or(Uuid::nil());
    let mut data = charges::page(&mut connection, after, i64::from(limit) + 1).await?;
    let has_more = data.len() > limit as usize;
    data.truncate(limit as usize);
    let next = data.last().filter(|_| has_more).map(|charge| charge.id);
    Ok(Json(Page { data, next }))
}
