//! Pages of the two ledgers.
//!
//! Ids are assigned just before the commit. So near the end of a ledger a new row may appear before
//! one that is already listed. A client that continues from the newest row must go back by one
//! statement timeout, or it may miss such a row.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Largest page; a larger limit is reduced to it.
const ROWS_MAX: u32 = 1_000;
const ROWS_DEFAULT: u32 = 100;

/// Where a page starts, and how long it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cursor {
    after: Option<Uuid>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct Page<Row> {
    pub(super) data: Vec<Row>,
    /// The next `after`; absent on the last page.
    pub(super) next: Option<Uuid>,
}

impl Cursor {
    pub(super) fn after(&self) -> Uuid {
        self.after.unwrap_or_default()
    }

    fn limit(&self) -> u32 {
        self.limit.unwrap_or(ROWS_DEFAULT).clamp(1, ROWS_MAX)
    }

    /// One row more than requested shows whether a next page exists.
    pub(super) fn rows_to_read(&self) -> i64 {
        i64::from(self.limit()) + 1
    }

    /// Cuts the extra row off. Returns the next `after`, if there is one.
    pub(super) fn cut<Row>(&self, rows: &mut Vec<Row>, id: impl Fn(&Row) -> Uuid) -> Option<Uuid> {
        let limit = self.limit() as usize;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        rows.last().map(id).filter(|_| has_more)
    }
}
