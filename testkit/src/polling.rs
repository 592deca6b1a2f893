//! Bounded polling: tests wait for a condition, never for a fixed time.

use std::time::{Duration, Instant};

/// Long enough for a busy machine. Only a failing test waits this long.
pub const WAIT_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

/// Polls until the condition holds, and panics if it does not hold in time.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    eventually_some(what, async || holds().await.then_some(())).await;
}

/// The same with another limit, for what takes longer by design: a timeout that must pass first.
pub async fn eventually_within(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    poll(limit, what, async || holds().await.then_some(())).await;
}

/// Polls until `read` returns a value, and panics if it does not in time.
pub async fn eventually_some<T>(what: &str, read: impl AsyncFnMut() -> Option<T>) -> T {
    poll(WAIT_MAX, what, read).await
}

async fn poll<T>(limit: Duration, what: &str, mut read: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = read().await {
            return value;
        }
        assert!(
            Instant::now() < deadline,
            "condition not met in time: {what}"
        );
        tokio::time::sleep(POLL).await;
    }
}
