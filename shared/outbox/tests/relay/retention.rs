//! Partitions are created ahead and dropped when they are old and fully published.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use outbox::{Maintained, Retention, maintain};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use testkit::fault_proxy::FaultProxy;
use uuid::Uuid;

use crate::harness::{Harness, event};

/// Long enough that nothing expires during a test, unless the test makes it old.
const RETENTION: Retention = Retention {
    window: Duration::from_secs(2 * WIDTH_S as u64),
    partition_width: Duration::from_secs(WIDTH_S as u64),
};
const WIDTH_S: i64 = 1_000;

/// Creates the partition of the time so many partitions ago, as if maintenance had created it then.
async fn old_partition(harness: &Harness, partitions_ago: i64) -> DateTime<Utc> {
    let number = Utc::now().timestamp().div_euclid(WIDTH_S) - partitions_ago;
    let from = DateTime::from_timestamp(number * WIDTH_S, 0).unwrap();
    let until = from + TimeDelta::seconds(WIDTH_S);
    let name = format!("outbox_old_{}", from.timestamp());
    let sql = format!(
        "create table {name} partition of outbox for values from ('{}') to ('{}')",
        from.to_rfc3339(),
        until.to_rfc3339()
    );
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&harness.pool)
        .await
        .unwrap();
    from
}

async fn write_at(harness: &Harness, created_at: DateTime<Utc>, published: bool) {
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    // Changing the time moves the row to its partition.
    sqlx::query(
        "update outbox set created_at = $1, published_at = case when $2 then now() end
         where id = (select max(id) from outbox)",
    )
    .bind(created_at)
    .bind(published)
    .execute(&harness.pool)
    .await
    .unwrap();
}

async fn count(harness: &Harness, table: &str) -> i64 {
    let sql = format!("select count(*) from {table}");
    let count = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&harness.pool);
    count.await.unwrap()
}

async fn partitions(harness: &Harness) -> Vec<String> {
    sqlx::query_scalar(
        "select inhrelid::regclass::text from pg_inherits
         where inhparent = 'outbox'::regclass order by 1",
    )
    .fetch_all(&harness.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn partitions_are_created_ahead_once_and_used() {
    let harness = Harness::create().await;
    let day = Retention {
        partition_width: Duration::from_secs(86_400),
        ..RETENTION
    };
    let first = maintain(&harness.pool, day).await.unwrap();
    assert_eq!(first.created, 3);
    let again = maintain(&harness.pool, day).await.unwrap();
    assert_eq!(again, Maintained::default());
    assert_eq!(partitions(&harness).await.len(), 4);
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    assert_eq!(count(&harness, "only outbox_default").await, 0);
    assert_eq!(count(&harness, "outbox").await, 1);
}

#[tokio::test]
async fn only_old_fully_published_partitions_are_dropped() {
    let harness = Harness::create().await;
    let published = old_partition(&harness, 30).await;
    let unpublished = old_partition(&harness, 20).await;
    let recent = old_partition(&harness, 1).await;
    write_at(&harness, published, true).await;
    write_at(&harness, unpublished, true).await;
    write_at(&harness, unpublished, false).await;
    write_at(&harness, recent, true).await;
    let round = maintain(&harness.pool, RETENTION).await.unwrap();
    assert_eq!(round.dropped, 1);
    assert_eq!(count(&harness, "outbox").await, 3);
    assert_eq!(harness.unpublished().await, 1);

    // Once it is published, the next round drops it.
    let (_shutdown, _task) = harness.run(harness.settings());
    harness.all_published().await;
    let round = maintain(&harness.pool, RETENTION).await.unwrap();
    assert_eq!(round.dropped, 1);
    assert_eq!(count(&harness, "outbox").await, 1);
    assert_eq!(harness.ids().await.len(), 1);
}

#[tokio::test]
async fn default_partition_rows_are_published_and_expire() {
    let harness = Harness::create().await;
    // The old ones first: a relay expects that the times of a shard's rows rise with their ids.
    let old = Utc::now() - TimeDelta::seconds(30 * WIDTH_S);
    write_at(&harness, old, true).await;
    write_at(&harness, old, false).await;
    // No partition exists for the current time yet.
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    assert_eq!(count(&harness, "outbox_default").await, 3);
    let round = maintain(&harness.pool, RETENTION).await.unwrap();
    assert_eq!(round.deleted, 1, "{round:?}");
    // The current partition cannot be created, future ones can.
    assert!((1..=2).contains(&round.created), "{round:?}");
    assert_eq!(count(&harness, "outbox_default").await, 2);
    let (_shutdown, _task) = harness.run(harness.settings());
    harness.all_published().await;
    assert_eq!(harness.ids().await.len(), 2);
}

#[tokio::test]
async fn maintenance_does_not_block_an_open_writer() {
    let harness = Harness::create().await;
    let old = old_partition(&harness, 30).await;
    write_at(&harness, old, true).await;
    // A transaction that writes an event stays open.
    let mut writer = harness.pool.begin().await.unwrap();
    outbox::enqueue(&mut writer, &[event(Uuid::new_v4(), 1)])
        .await
        .unwrap();
    let round = maintain(&harness.pool, RETENTION).await.unwrap();
    assert_eq!(round.dropped, 0);
    writer.commit().await.unwrap();
    let round = maintain(&harness.pool, RETENTION).await.unwrap();
    assert_eq!(round.dropped, 1);
}

#[tokio::test]
async fn writers_do_not_fail_while_a_partition_is_created() {
    let harness = Harness::create().await;
    // The statement is already planned, as in a running service.
    write_ten(&harness, 0).await;
    for round in 0..20 {
        for name in partitions(&harness).await {
            let sql = match name.as_str() {
                "outbox_default" => "truncate outbox_default".to_owned(),
                other => format!("drop table {other}"),
            };
            sqlx::raw_sql(AssertSqlSafe(sql))
                .execute(&harness.pool)
                .await
                .unwrap();
        }
        let (maintained, (), ()) = tokio::join!(
            maintain(&harness.pool, RETENTION),
            write_ten(&harness, round),
            write_ten(&harness, round)
        );
        maintained.unwrap();
        assert_eq!(count(&harness, "outbox").await, 20);
    }
}

/// Starts at a different moment of the maintenance in each round.
async fn write_ten(harness: &Harness, round: u64) {
    tokio::time::sleep(Duration::from_micros(600 * round)).await;
    for _ in 0..10 {
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
    }
}

#[tokio::test]
async fn concurrent_maintenance_creates_partitions_once() {
    let harness = Harness::create().await;
    let rounds = (0..4).map(|_| maintain(&harness.pool, RETENTION));
    let rounds = futures_util::future::join_all(rounds).await;
    let created: u64 = rounds.into_iter().map(|round| round.unwrap().created).sum();
    // The test may run across the boundary between two partitions.
    assert!((1..=4).contains(&created), "{created}");
    let names = partitions(&harness).await;
    assert_eq!(names.len() as u64, created + 1, "{names:?}");
}

#[tokio::test]
async fn partition_without_lower_bound_is_kept_and_published() {
    // How an operator turns a full default partition into a regular one.
    const DETACH_DEFAULT: &str = "
        alter table outbox detach partition outbox_default;
        alter table outbox_default rename to outbox_before;
        create table outbox_default partition of outbox default;
        do $$ begin
            execute format(
                'alter table outbox attach partition outbox_before for values from (minvalue) to (%L)',
                clock_timestamp());
        end $$;";
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.write(&[event(order, 1), event(order, 2)]).await;
    sqlx::raw_sql("update outbox set published_at = now() where id = 1")
        .execute(&harness.pool)
        .await
        .unwrap();
    sqlx::raw_sql(DETACH_DEFAULT)
        .execute(&harness.pool)
        .await
        .unwrap();
    harness.write(&[event(order, 3)]).await;
    maintain(&harness.pool, RETENTION).await.unwrap();
    let mut relay = harness.relay(harness.settings());
    relay.step().await.unwrap();
    let messages = harness.topic.read().await;
    assert_eq!(crate::harness::numbers(&messages, order), [2, 3]);
    let ids: Vec<i64> = sqlx::query_scalar("select id from outbox order by id")
        .fetch_all(&harness.pool)
        .await
        .unwrap();
    assert_eq!(ids, [1, 2, 3]);
}

#[tokio::test]
async fn full_default_partition_is_read_once_and_not_under_a_lock() {
    const ROWS: i64 = 20_000;
    let harness = Harness::create().await;
    sqlx::query(
        "insert into outbox (event_id, event_type, source, subject, shard, correlation_id, payload)
         select gen_random_uuid(), 'fulfilment.shipped', 'test', gen_random_uuid(), 0, 'corr', '{}'
         from generate_series(1, $1)",
    )
    .bind(ROWS)
    .execute(&harness.pool)
    .await
    .unwrap();
    let before = rows_scanned(&harness).await;
    let round = maintain(&harness.pool, RETENTION).await.unwrap();
    assert!(round.created >= 1, "{round:?}");
    // Validating the constraint reads all rows. Attaching a partition must not read them again: it
    // would block all writers.
    testkit::eventually("the statistics are up to date", async || {
        rows_scanned(&harness).await > before
    })
    .await;
    let scanned = rows_scanned(&harness).await - before;
    assert!((ROWS..2 * ROWS).contains(&scanned), "{scanned}");
    let constraints: i64 = sqlx::query_scalar(
        "select count(*) from pg_constraint
         where conrelid = 'outbox_default'::regclass and contype = 'c'",
    )
    .fetch_one(&harness.pool)
    .await
    .unwrap();
    assert_eq!(constraints, 0, "the constraint is gone");
}

async fn rows_scanned(harness: &Harness) -> i64 {
    let mut connection = harness.pool.acquire().await.unwrap();
    sqlx::raw_sql("select pg_stat_force_next_flush()")
        .execute(&mut *connection)
        .await
        .unwrap();
    sqlx::query_scalar(
        "select seq_tup_read from pg_stat_user_tables where relname = 'outbox_default'",
    )
    .fetch_one(&mut *connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn round_dropped_on_a_silent_database_frees_its_connection() {
    let harness = Harness::create().await;
    let url = harness.pool.connect_options().to_url_lossy();
    let proxy = FaultProxy::to(url.as_str()).await.unwrap();
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .acquire_timeout(testkit::polling::WAIT_MAX);
    let pool = pool.connect(&proxy.url).await.unwrap();
    proxy.silence();
    let round = tokio::time::timeout(Duration::from_millis(200), maintain(&pool, RETENTION));
    assert!(round.await.is_err());
    proxy.open();
    let maintained = maintain(&pool, RETENTION).await.unwrap();
    assert!(maintained.created > 0, "{maintained:?}");
}
