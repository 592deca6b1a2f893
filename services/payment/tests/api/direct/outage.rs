//! The store is away: nothing is charged without a record of it.

use std::time::{Duration, Instant};

use lab::wire::{Loss, Wire};
use payment::direct::POLL_DEFAULT;
use payment::startup::Application;
use sqlx::postgres::PgPoolOptions;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{NO_WAIT, charge_what_is_due, stored};
use crate::application::config;
use crate::front::{Caller, Front, charge};
use crate::provider::{call_count, captures};
use crate::world::World;

/// The time-out for a connection, and what a busy machine adds.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn without_its_store_every_request_fails_soon_and_says_when_to_retry() {
    let world = World::create().await;
    captures(&world.psp).await;
    let mut config = config(&world, &["--database-acquire-timeout-ms", "300"]);
    config.database.database_url = "postgres://nobody@127.0.0.1:1/none".to_owned();
    let application = Application::build(config).await.unwrap();
    let caller = Caller::of(application.port().unwrap());
    let shutdown = CancellationToken::new();
    tokio::spawn(application.run_until(shutdown.clone()));
    let started = Instant::now();
    let one = format!("/payments/{}", Uuid::new_v4());
    let body = charge();
    let (posted, read) = tokio::join!(caller.post("k-1", &body), caller.get(&one));
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    for answer in [posted, read] {
        answer.expect_problem(503, "temporarily_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert_eq!(call_count(&world.psp).await, 0);
    shutdown.cancel();
}

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
