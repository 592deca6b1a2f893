//! Who asked: the correlation id and trace context of the request that is being handled.

use std::future::Future;
use std::sync::Arc;

use uuid::Uuid;

tokio::task_local! {
    static CURRENT: Context;
}

/// Longest correlation id taken from a caller; anything longer is replaced.
pub const CORRELATION_ID_LEN_MAX: usize = 128;

#[derive(Clone, Debug)]
pub struct Context {
    pub correlation_id: Arc<str>,
    pub traceparent: Option<String>,
}

impl Context {
    /// A caller's id if it is printable and short, a fresh one otherwise: it ends up in logs,
    /// headers and messages, so nothing hostile may get in.
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

    /// The context of the request at hand, or a fresh one outside of any.
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
    fn a_hostile_correlation_id_is_replaced() {
        let long = "x".repeat(CORRELATION_ID_LEN_MAX + 1);
        for hostile in ["", "a b", "a\nb", "é", long.as_str()] {
            let context = Context::new(Some(hostile), None);
            assert_ne!(&*context.correlation_id, hostile);
            assert!(is_safe(&context.correlation_id));
        }
        assert_eq!(&*Context::new(Some("req-1"), None).correlation_id, "req-1");
    }
}
