//! The current time at the precision of the books.

use chrono::{DateTime, SubsecRound as _, Utc};

/// Digits of a second that Postgres stores.
const TIMESTAMP_DIGITS: u16 = 6;

/// Truncated to what Postgres stores, so that a time read back from the books is the same.
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(TIMESTAMP_DIGITS)
}
