//! A step reads about what it returns: with plans made while the table was empty, with any
//! statistics, backlog or history.

use std::time::Duration;

use service_kit::database;
use sqlx::{Connection as _, PgConnection};
use testkit::postgres::pages::PageCount;

use crate::harness::{Harness, LONG};

/// For each mail: its row, the row's new version and an entry in each index, a few pages deep.
const PAGES_PER_MAIL_MAX: i64 = 40;
/// A step that finds nothing.
const PAGES_IDLE_MAX: i64 = 20;

/// A database whose connections are set up as in production and keep their first plans.
async fn create() -> Harness {
    let mut harness = Harness::create().await;
    let keep = "do $$ begin
        execute format('alter database %I set plan_cache_mode = force_generic_plan', current_database());
    end $$";
    harness.execute(keep).await;
    let settings = database::Settings {
        database_url: harness.url.clone(),
        // One connection: it keeps its plans.
        database_connections_max: 1,
        database_acquire_timeout_ms: 10_000,
        database_statement_timeout_ms: 60_000,
    };
    harness.pool = database::connect_lazy(&settings, "receipt-test").unwrap();
    harness
}

/// Logs this many mails in one statement, due in the past.
async fn fill(harness: &Harness, count: i32) {
    let insert = "insert into receipts (event_id, mail_type, order_id, attempt, recipient, amount,
                                        currency, lines, correlation_id, status, due_at)
                  select id, 'receipt', id, 1, 'a@b.example', 100, 'USD', '[]', 'c', 'pending',
                         now() - interval '1 hour' + n * interval '1 ms'
                  from (select gen_random_uuid() as id, n from generate_series(1, $1) as n) as new";
    let insert = sqlx::query(insert).bind(count);
    insert.execute(&harness.pool).await.unwrap();
}

/// Sends one batch; returns the number of mails, and the pages that its lease and its record read.
async fn send(harness: &Harness, pages: &mut PageCount) -> (i64, i64) {
    let mut stepper = harness.stepper(LONG);
    pages.restart().await.unwrap();
    let tried = stepper.send().await;
    assert_eq!(harness.record(&tried).await, tried.len());
    let count = pages.pages_of("update receipts").await.unwrap();
    (tried.len() as i64, count)
}

#[tokio::test]
async fn backlog_costs_nothing_whatever_the_statistics() {
    for statistics in ["", "analyze receipts"] {
        let harness = create().await;
        harness.execute(statistics).await;
        // Plans are made here, on the empty table.
        assert_eq!(harness.try_once().await, 0);
        harness.log_new().await;
        assert_eq!(harness.try_once().await, 1);
        fill(&harness, 100_000).await;
        let mut pages = PageCount::begin(&harness.url).await.unwrap();
        for _ in 0..3 {
            let (mails, count) = send(&harness, &mut pages).await;
            assert_eq!(mails, 16);
            assert!(
                count < mails * PAGES_PER_MAIL_MAX,
                "{statistics:?}: {count}"
            );
        }
    }
}

#[tokio::test]
async fn mails_sent_under_an_old_snapshot_are_not_read_again() {
    let harness = create().await;
    let mut snapshot = PgConnection::connect(&harness.url).await.unwrap();
    sqlx::raw_sql("begin isolation level repeatable read; select count(*) from receipts")
        .execute(&mut snapshot)
        .await
        .unwrap();
    fill(&harness, 25_000).await;
    harness
        .execute("update receipts set status = 'sent', sent_at = now()")
        .await;
    let mut pages = PageCount::begin(&harness.url).await.unwrap();
    let stepper = harness.stepper(LONG);
    // The first step finds the floor.
    stepper.lease().await;
    pages.restart().await.unwrap();
    for _ in 0..20 {
        assert_eq!(stepper.lease().await, 0);
    }
    let count = pages.pages_of("update receipts").await.unwrap();
    assert!(count < 20 * PAGES_IDLE_MAX, "{count}");

    // A mail that is logged now is above the floor.
    harness.log_new().await;
    assert_eq!(stepper.lease().await, 1);
    drop(snapshot);
}

/// A mail whose transaction began before the floor was found commits late, and is sent.
#[tokio::test]
async fn mail_that_commits_late_is_not_below_the_floor() {
    let harness = Harness::create().await;
    let stepper = harness.stepper(LONG);
    let mut late = PgConnection::connect(&harness.url).await.unwrap();
    sqlx::raw_sql("begin").execute(&mut late).await.unwrap();
    // The floor moves every second and stays a second behind.
    let age_s = "select extract(epoch from clock_timestamp() - now())::float8";
    while sqlx::query_scalar::<_, f64>(age_s)
        .fetch_one(&mut late)
        .await
        .unwrap()
        < 4.0
    {
        assert_eq!(stepper.lease().await, 0);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let insert = "insert into receipts (event_id, mail_type, order_id, attempt, recipient, amount,
                                        currency, lines, correlation_id, status)
                  values (gen_random_uuid(), 'receipt', gen_random_uuid(), 1, 'a@b.example', 100,
                          'USD', '[]', 'c', 'pending')";
    sqlx::raw_sql(insert).execute(&mut late).await.unwrap();
    assert_eq!(stepper.lease().await, 0, "not committed yet");
    sqlx::raw_sql("commit").execute(&mut late).await.unwrap();
    assert_eq!(stepper.lease().await, 1);
}
