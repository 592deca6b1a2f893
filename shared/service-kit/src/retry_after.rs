//! The `Retry-After` header, read by whoever calls another service.

use std::time::Duration;

use axum::http::{HeaderMap, header};

/// Longest wait taken from a peer; a typo there must not park our work for a day.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// Delay-seconds only; the date form is treated as absent.
pub fn parse(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = value.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}
