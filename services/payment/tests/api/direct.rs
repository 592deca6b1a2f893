//! Direct charges: `POST /payments` and what becomes of it.

mod document;
mod keys;
mod outage;
mod references;
mod requests;
mod waits;

use std::time::Duration;

use crate::harness::{Harness, LONG};

/// For callers that are told at once that it takes longer.
const NO_WAIT: Duration = Duration::ZERO;

/// One round of the charger and the recorder. Returns how many payments it settled.
async fn charge_what_is_due(harness: &Harness) -> usize {
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap()
}

/// How many keys, payments, completed keys and events there are.
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
