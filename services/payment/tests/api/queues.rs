//! The queues of the principals: fair, cheap while old rows cannot be removed, and complete.

use sqlx::{Connection as _, PgConnection, PgPool};
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::harness::{Harness, LONG};
use crate::provider::mount_captures;

/// Attempts and refunds that were worked off in one round. Their index entries stay as long as the snapshot
/// is held.
const WORK_OFF: &str = "
    insert into payments (order_id, attempt, amount, currency, payment_method, lines, principal,
                          status, correlation_id)
    select gen_random_uuid(), 1, 100, 'USD', 'pm', '[]', 'acme', 'pending', 'c'
    from generate_series(1, 40000);
    update payments set status = 'captured', charge_id = order_id::text where status = 'pending' and tries = 0;
    insert into refunds (charge_id, key, order_id, attempt, amount, currency, reason, status,
                         correlation_id, principal)
    select id, 'refund:' || id, gen_random_uuid(), 1, 100, 'USD', 'r', 'pending', 'c', 'acme'
    from (select gen_random_uuid()::text as id from generate_series(1, 4000)) as new;
    update refunds set status = 'refunded', refund_id = 're-' || charge_id where status = 'pending';";
/// 200,000 attempts and 20,000 refunds in all.
const ROUNDS: usize = 5;
const LEASE: &str = "with due as materialized";
/// Pages that one statement of a step may read.
const PAGES_MAX: i64 = 200;

#[tokio::test]
async fn held_snapshot_does_not_slow_down_the_queue() {
    let harness = Harness::create().await.with_service_options("");
    mount_captures(&harness.psp).await;
    let mut snapshot = PgConnection::connect(&harness.url).await.unwrap();
    let hold = "begin isolation level repeatable read; select from payments";
    sqlx::raw_sql(hold).execute(&mut snapshot).await.unwrap();
    // With its own connection: those of the service may only use indexes.
    let mut others = PgConnection::connect(&harness.url).await.unwrap();
    let stepper = harness.stepper(LONG);
    harness.open_new().await;
    assert_eq!(stepper.lease().await, 1);
    let mut count = PageCount::begin(&harness.url).await.unwrap();
    for round in 1..=ROUNDS {
        sqlx::raw_sql(WORK_OFF).execute(&mut others).await.unwrap();
        stepper.keep_queues(false).await;
        harness.open_new().await;
        count.restart().await.unwrap();
        assert_eq!(stepper.lease_only().await, 1);
        stepper.keep_queues(false).await;
        for statement in count.statements().await.unwrap() {
            assert!(statement.pages < PAGES_MAX, "round {round}: {statement:#?}");
        }
        assert!(count.pages_of(LEASE).await.unwrap() > 0);
    }
    // The snapshot kept every entry: a charger that knows no floor reads them all.
    let beginner = harness.stepper(LONG);
    beginner.wake("acme");
    count.restart().await.unwrap();
    assert_eq!(beginner.lease_only().await, 0);
    assert!(count.pages_of(LEASE).await.unwrap() > 10 * PAGES_MAX);
    snapshot.close().await.unwrap();
}

#[tokio::test]
async fn row_that_commits_late_is_leased() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let stepper = harness.stepper(LONG);
    let mut late = harness.pool.begin().await.unwrap();
    let order = Uuid::new_v4();
    let insert = "insert into payments (order_id, attempt, amount, currency, payment_method, lines,
                                        principal, status, correlation_id)
                  values ($1, 1, 100, 'USD', 'pm', '[]', 'acme', 'pending', 'c')";
    let insert = sqlx::query(insert).bind(order).execute(&mut *late);
    insert.await.unwrap();
    for _ in 0..3 {
        harness.open_new().await;
        assert_eq!(stepper.lease().await, 1);
    }
    late.commit().await.unwrap();
    assert_eq!(stepper.lease_only().await, 1, "the late row");
    assert_eq!(harness.payment(order, 1).await.tries, 1);
}

#[tokio::test]
async fn full_scan_finds_a_row_behind_the_floor() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let stepper = harness.stepper(LONG);
    harness.open_new().await;
    assert_eq!(stepper.lease().await, 1);
    stepper.keep_queues(false).await;
    // As after the database's clock was set back.
    harness.open_new().await;
    let back = "update payments set due_at = now() - interval '1 hour' where tries = 0";
    harness.execute(back).await;
    assert_eq!(stepper.lease().await, 0, "behind the floor");
    stepper.keep_queues(true).await;
    assert_eq!(stepper.lease_only().await, 1);
}

/// Attempts of each principal that hold a lease.
async fn leased(pool: &PgPool, principal: &str) -> i64 {
    let count = "select count(*) from payments where principal = $1 and lease_token is not null";
    let count = sqlx::query_scalar(count).bind(principal).fetch_one(pool);
    count.await.unwrap()
}

#[tokio::test]
async fn principal_with_a_backlog_leaves_slots_to_others() {
    let harness = Harness::create().await;
    // Nothing is recorded, so every call keeps its slot.
    mount_captures(&harness.psp).await;
    for _ in 0..300 {
        let opened = harness.open_for("globex", Uuid::new_v4(), 1).await;
        opened.unwrap();
    }
    let stepper = harness.stepper(LONG);
    // Each step also keeps slots for the queues that turn out to be empty.
    for _ in 0..10 {
        stepper.lease().await;
    }
    assert_eq!(
        leased(&harness.pool, "globex").await,
        128,
        "half of all slots"
    );
    for _ in 0..10 {
        harness.open_new().await;
    }
    assert_eq!(stepper.lease().await, 10);
    assert_eq!(leased(&harness.pool, "acme").await, 10);
}
