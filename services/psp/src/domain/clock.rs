//! The time, as the books keep it.

use chrono::{DateTime, SubsecRound as _, Utc};

/// Digits of a second that Postgres keeps.
const TIMESTAMP_DIGITS: u16 = 6;

/// As exact as the database can give it back: what is read later must look the same.
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(TIMESTAMP_DIGITS)
}
