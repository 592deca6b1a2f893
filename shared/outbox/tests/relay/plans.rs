//! A step of the relay reads about what it returns: with a plan from an empty table, with a backlog that
//! belongs to another relay, and while an old snapshot keeps the entries of published rows.

use std::time::Duration;

use outbox::{GuardOutcome, SHARDS, StepOutcome};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use testkit::polling::eventually;
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::harness::{Harness, event};

/// Pages that a step may read besides those of the rows it returns: one short path through an index for
/// each shard and each of the few partitions, twice, and the statements around it.
const PAGES_BESIDES: i64 = 400;
/// Pages per returned row: its index entry, its old and new version, and their neighbours.
const PAGES_PER_ROW: i64 = 12;

impl Harness {
    async fn pages(&self) -> PageCount {
        let url = self.pool.connect_options().to_url_lossy();
        PageCount::begin(url.as_str()).await.unwrap()
    }

    /// Writes this many events of as many orders with one statement, to shards below `shards`.
    async fn fill(&self, rows: i64, shards: i16) {
        sqlx::query(
            "insert into outbox (event_id, event_type, source, subject, shard, correlation_id, payload)
             select gen_random_uuid(), 'fulfilment.shipped', 'test', gen_random_uuid(),
                    n % $2::integer, 'corr', '{}'
             from generate_series(1, $1) as n",
        )
        .bind(rows)
        .bind(i32::from(shards))
        .execute(&self.pool)
        .await
        .unwrap();
    }
}

async fn total(pages: &mut PageCount) -> i64 {
    let statements = pages.statements().await.unwrap();
    let of_relay = statements
        .iter()
        .filter(|it| it.statement.contains("outbox"));
    of_relay.map(|it| it.pages).sum()
}

#[tokio::test]
async fn plan_of_an_empty_table_reads_what_it_returns() {
    let harness = Harness::create().await;
    sqlx::raw_sql("alter table outbox_default set (autovacuum_enabled = off); analyze outbox")
        .execute(&harness.pool)
        .await
        .unwrap();
    let mut settings = harness.settings();
    settings.batch_rows_max = 160;
    let mut relay = harness.relay(settings);
    // Postgres keeps the plan of a prepared statement after some executions.
    for _ in 0..8 {
        assert_eq!(relay.step().await.unwrap(), StepOutcome::Idle);
    }
    harness.fill(50_000, SHARDS).await;
    let mut pages = harness.pages().await;
    for _ in 0..3 {
        pages.restart().await.unwrap();
        assert_eq!(relay.step().await.unwrap(), StepOutcome::Published(160));
        let read = total(&mut pages).await;
        assert!(
            read <= PAGES_BESIDES + 160 * PAGES_PER_ROW,
            "{read} pages: {:#?}",
            pages.statements().await.unwrap()
        );
    }
}

#[tokio::test]
async fn reading_ahead_reads_what_it_returns() {
    let harness = Harness::create().await;
    sqlx::raw_sql("alter table outbox_default set (autovacuum_enabled = off); analyze outbox")
        .execute(&harness.pool)
        .await
        .unwrap();
    harness.fill(50_000, SHARDS).await;
    let mut pages = harness.pages().await;
    let mut settings = harness.settings();
    settings.batch_rows_max = 160;
    let (shutdown, task) = harness.run(settings);
    eventually("some batches are published", async || {
        harness.unpublished().await < 45_000
    })
    .await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
    let statements = pages.statements().await.unwrap();
    let read_ahead = statements
        .iter()
        .find(|it| it.statement.contains("in_flight_end"));
    let read_ahead = read_ahead.expect("the relay has read ahead");
    let read = read_ahead.pages / read_ahead.calls;
    assert!(
        read <= PAGES_BESIDES + 160 * PAGES_PER_ROW,
        "{read} pages a call"
    );
}

#[tokio::test]
async fn backlog_of_another_relay_is_not_read() {
    let harness = Harness::create().await;
    // Another relay owns the first half of the shards, and has a backlog.
    let url = harness.pool.connect_options().to_url_lossy();
    let mut other = PgConnection::connect(url.as_str()).await.unwrap();
    for shard in 0..SHARDS / 2 {
        sqlx::query("select pg_advisory_lock('outbox'::regclass::oid::integer, $1)")
            .bind(i32::from(shard))
            .execute(&mut other)
            .await
            .unwrap();
    }
    harness.fill(50_000, SHARDS / 2).await;
    let mut relay = harness.relay(harness.settings());
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Idle);
    let mut pages = harness.pages().await;
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Idle);
    let read = total(&mut pages).await;
    assert!(read <= PAGES_BESIDES, "{read} pages");
}

/// Rows published while the snapshot is held, and how many of them in each round.
const PUBLISHED: i64 = 200_000;
const ROUND: i64 = 40_000;
/// Marks what waits as the relay does. The entries in the index of unpublished rows stay.
const MARK: &str = "update outbox set published_at = now() where published_at is null and not held";

#[tokio::test]
async fn held_snapshot_does_not_make_steps_slower() {
    let harness = Harness::create().await;
    let url = harness.pool.connect_options().to_url_lossy();
    let mut dump = PgConnection::connect(url.as_str()).await.unwrap();
    sqlx::raw_sql("begin isolation level repeatable read; select count(*) from outbox")
        .execute(&mut dump)
        .await
        .unwrap();
    let mut settings = harness.settings();
    settings.full_read_interval = Duration::MAX;
    let mut relay = harness.relay(settings);
    let mut pages = harness.pages().await;
    for round in 1..=PUBLISHED / ROUND {
        harness.fill(ROUND, SHARDS).await;
        assert!(matches!(
            relay.step().await.unwrap(),
            StepOutcome::Published(1..)
        ));
        sqlx::raw_sql(MARK).execute(&harness.pool).await.unwrap();
        // The floors rise at intervals.
        crate::harness::eventually("a step reads no published rows", async || {
            pages.restart().await.unwrap();
            assert_eq!(relay.step().await.unwrap(), StepOutcome::Idle);
            total(&mut pages).await <= PAGES_BESIDES
        })
        .await;
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
        pages.restart().await.unwrap();
        assert_eq!(relay.step().await.unwrap(), StepOutcome::Published(1));
        let read = total(&mut pages).await;
        assert!(
            read <= PAGES_BESIDES + PAGES_PER_ROW,
            "round {round}: {read} pages"
        );
    }
    // The snapshot kept every entry: a relay that knows no floor reads them all.
    drop(relay);
    let mut beginner = harness.relay(harness.settings());
    pages.restart().await.unwrap();
    crate::harness::eventually("another relay has read the shards", async || {
        assert_eq!(beginner.step().await.unwrap(), StepOutcome::Idle);
        total(&mut pages).await > PUBLISHED / 10
    })
    .await;
    dump.close().await.unwrap();
}

#[tokio::test]
async fn row_that_commits_late_is_found_above_the_floor() {
    let harness = Harness::create().await;
    let mut relay = harness.relay(harness.settings());
    // Gets the lowest id, and stays open.
    let late = Uuid::new_v4();
    let mut writer = harness.pool.begin().await.unwrap();
    outbox::enqueue(&mut writer, &[event(late, 1)])
        .await
        .unwrap();
    // Rows pass by until the floors have had several chances to rise: each look lists the writers once.
    let mut pages = harness.pages().await;
    crate::harness::eventually(
        "the relay looks at the writers again and again",
        async || {
            harness.fill(100, SHARDS).await;
            while relay.step().await.unwrap() != StepOutcome::Idle {}
            let statements = pages.statements().await.unwrap();
            let looks = statements
                .iter()
                .filter(|it| it.statement.contains("pg_locks"));
            looks.map(|it| it.calls).sum::<i64>() >= 4
        },
    )
    .await;
    writer.commit().await.unwrap();
    harness.write(&[event(late, 2)]).await;
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Published(2));
    let messages = harness.topic.read().await;
    assert_eq!(crate::harness::numbers(&messages, late), [1, 2]);
}

#[tokio::test]
async fn check_of_the_guard_reads_no_published_rows() {
    let harness = Harness::create().await;
    sqlx::raw_sql("alter table outbox_default set (autovacuum_enabled = off); analyze outbox")
        .execute(&harness.pool)
        .await
        .unwrap();
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let mut relay = harness.relay(harness.settings());
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Published(1));
    let guard = harness.guard();
    // Postgres keeps the plan of a prepared statement after some executions.
    for _ in 0..8 {
        assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact);
    }
    harness.fill(50_000, SHARDS).await;
    sqlx::query("update outbox set published_at = now() where published_at is null")
        .execute(&harness.pool)
        .await
        .unwrap();
    let mut pages = harness.pages().await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact);
    let read = total(&mut pages).await;
    assert!(read <= PAGES_BESIDES, "{:#?}", pages.statements().await);
}
