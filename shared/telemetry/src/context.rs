//! The correlation id and trace context of the current request.

use std::future::Future;
use std::sync::Arc;

use uuid::Uuid;

tokio::task_local! {
    static CURRENT: Context;
}

/// Longest correlation id that we accept from a caller. A longer one is replaced.
pub const CORRELATION_ID_LEN_MAX: usize = 128;

/// Identifies a request in everything that it causes: rows, messages and calls.
#[derive(Clone, Debug)]
pub struct Context {
    pub correlation_id: Arc<str>,
    pub traceparent: Option<String>,
}

impl Context {
    /// Keeps the caller's id if it is short and printable, and generates one otherwise. The id is
    /// written to logs, headers and messages, so control characters must not get in.
    pub fn new(correlation_id: Option<&str>, traceparent: Option<String>) -> Self {
        let correlation_id = match correlation_id {
            Some(id) if is_safe(id) => Arc::from(id),
            _ => Arc::from(Uuid::new_v4().to_string()),
        };
        Self {
            correlation_id,
            traceparent,
        }
    }

    /// The context of the current request. Outside of a request, a new one.
    pub fn current() -> Self {
        CURRENT
            .try_with(Clone::clone)
            .unwrap_or_else(|_| Self::new(None, None))
    }

    /// Runs `work` with this as [`Context::current`].
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }
}

fn is_safe(id: &str) -> bool {
    (1..=CORRELATION_ID_LEN_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_correlation_id_is_replaced() {
        let long = "x".repeat(CORRELATION_ID_LEN_MAX + 1);
        for unsafe_id in ["", "a b", "a\nb", "é", long.as_str()] {
            let context = Context::new(Some(unsafe_id), None);
            assert_ne!(&*context.correlation_id, unsafe_id);
            assert!(is_safe(&context.correlation_id));
        }
        assert_eq!(&*Context::new(Some("req-1"), None).correlation_id, "req-1");
    }
}
