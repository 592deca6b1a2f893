//! The operator behind a request that changes something.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use service_kit::Problem;

/// The header with the reason of a change.
pub const REASON: HeaderName = HeaderName::from_static("x-reason");
/// Longest reason, in characters.
pub const REASON_CHARS_MAX: usize = 500;

/// Who changes something, and why. A handler takes it as an argument and passes it to
/// [`audit::record`](crate::audit::record).
///
/// Only a request that passed the authentication of [`finish`](crate::finish) has one. In a router
/// without it, every request that needs an operator fails.
///
/// A handler that succeeds has recorded its change, or has said that it changed nothing. Otherwise the
/// request fails in a debug build, and is logged and counted in any other.
#[derive(Clone, Debug)]
pub struct Operator {
    name: Arc<str>,
    reason: Arc<str>,
    /// Whether the audit log has the change, or there was none.
    accounted: Arc<AtomicBool>,
}

impl Operator {
    /// For changes that do not come over HTTP, such as in tests.
    pub fn new(name: &str, reason: &str) -> Self {
        Self {
            name: name.into(),
            reason: reason.into(),
            accounted: Arc::default(),
        }
    }

    /// The request changed nothing, such as a repeat: the audit log needs no row.
    pub fn nothing_changed(&self) {
        self.account();
    }

    pub(crate) fn account(&self) {
        self.accounted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_accounted(&self) -> bool {
        self.accounted.load(Ordering::Relaxed)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| {
            tracing::error!(
                "operator route without authentication, or a read that changes something"
            );
            Problem::internal()
        })
    }
}

/// The reason in the headers, if it is valid: UTF-8 without control characters.
pub(crate) fn reason(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = std::str::from_utf8(headers.get(REASON)?.as_bytes()).ok()?;
    let text = text.trim();
    let is_valid = (1..=REASON_CHARS_MAX).contains(&text.chars().count())
        && !text.chars().any(char::is_control);
    is_valid.then(|| text.into())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn reason_has_a_limited_length_and_is_printable() {
        let (longest, too_long) = (
            "é".repeat(REASON_CHARS_MAX),
            "é".repeat(REASON_CHARS_MAX + 1),
        );
        for (given, expected) in [
            (
                " ticket 4711: wrong address ",
                Some("ticket 4711: wrong address"),
            ),
            (&longest, Some(&*longest)),
            (&too_long, None),
            ("", None),
            ("  ", None),
            ("a\tb", None),
            ("a\u{85}b", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(REASON, HeaderValue::from_bytes(given.as_bytes()).unwrap());
            assert_eq!(reason(&headers).as_deref(), expected, "{given:?}");
        }
        assert_eq!(reason(&HeaderMap::new()), None);
        let not_utf8 = HeaderValue::from_bytes(b"\xff").unwrap();
        let headers = HeaderMap::from_iter([(REASON, not_utf8)]);
        assert_eq!(reason(&headers), None);
    }
}
