//! Reads the `Retry-After` header of a response.

use std::time::Duration;

use axum::http::{HeaderMap, header};

/// Longest wait that we accept. A wrong header must not delay our work for a day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Accepts a number of seconds. The date form counts as absent.
pub fn parse(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = value.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
