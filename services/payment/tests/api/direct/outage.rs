//! The answer of the store is lost: what was stored is charged once, and found by the retry.

use payment::direct::POLL_DEFAULT;
use sqlx::postgres::PgPoolOptions;
use testkit::fault_proxy::{FaultProxy, Loss};

use super::{NO_WAIT, charge_what_is_due, stored};
use crate::front::{Front, charge};
use crate::harness::Harness;
use crate::provider::{call_count, captures};

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_by_the_retry() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let wire = FaultProxy::to(&harness.url).await.unwrap();
    let pool = PgPoolOptions::new().max_connections(2);
    let pool = pool.connect(&wire.url).await.unwrap();
    let front = Front::open_over(&harness, pool, NO_WAIT, POLL_DEFAULT).await;
    wire.lose_commit(Loss::Response);
    let lost = front.caller.post("k-1", &charge()).await;
    lost.expect_problem(503, "temporarily_unavailable");
    assert!(wire.has_lost());
    assert_eq!(stored(&harness).await, [1, 1, 0, 0]);

    let retry = front.caller.post("k-1", &charge()).await;
    let problem = retry.expect_problem(409, "idempotency_key_in_flight");
    assert_eq!(charge_what_is_due(&harness).await, 1);
    let replay = front.caller.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(problem["payment_id"], replay.payment_id().to_string());
    assert_eq!(call_count(&harness.psp).await, 1);
}
