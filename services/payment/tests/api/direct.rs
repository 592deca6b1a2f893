//! Direct charges: `POST /payments` and its outcome.

mod document;
mod keys;
mod outage;
mod references;
mod requests;
mod waits;

use std::time::Duration;

use crate::harness::{Harness, LONG};

/// A request that does not wait gets 202 immediately.
const NO_WAIT: Duration = Duration::ZERO;

/// One step of the chargers and one of the recorder. Returns the number of settled payments.
async fn charge_due(harness: &Harness) -> usize {
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap()
}

/// The number of keys, payments, completed keys and events.
pub(crate) async fn stored(harness: &Harness) -> [i64; 4] {
    [
        harness.count("select count(*) from idempotency_keys").await,
        harness.count("select count(*) from payments").await,
        harness
            .count("select count(response_version) from idempotency_keys")
            .await,
        harness.count("select count(*) from outbox").await,
    ]
}
