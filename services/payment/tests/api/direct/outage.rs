//! The answer of the store is lost: what was stored is charged once, and found by the retry.

use lab::wire::{Loss, Wire};
use payment::direct::POLL_DEFAULT;
use sqlx::postgres::PgPoolOptions;

use super::{NO_WAIT, charge_what_is_due, stored};
use crate::front::{Front, charge};
use crate::provider::{call_count, captures};
use crate::world::World;

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_by_the_retry() {
    let world = World::create().await;
    captures(&world.psp).await;
    let wire = Wire::to(&world.url).await.unwrap();
    let pool = PgPoolOptions::new().max_connections(2);
    let pool = pool.connect(&wire.url).await.unwrap();
    let front = Front::open_over(&world, pool, NO_WAIT, POLL_DEFAULT).await;
    wire.lose_commit(Loss::Answer);
    let lost = front.caller.post("k-1", &charge()).await;
    lost.expect_problem(503, "temporarily_unavailable");
    assert!(wire.has_lost());
    assert_eq!(stored(&world).await, [1, 1, 0, 0]);

    let retry = front.caller.post("k-1", &charge()).await;
    let problem = retry.expect_problem(409, "idempotency_key_in_flight");
    assert_eq!(charge_what_is_due(&world).await, 1);
    let replay = front.caller.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(problem["payment_id"], replay.payment_id().to_string());
    assert_eq!(call_count(&world.psp).await, 1);
}
