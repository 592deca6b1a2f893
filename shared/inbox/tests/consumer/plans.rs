//! Statements read about what they return, with plans that date from an empty table.

use std::time::Duration;

use inbox::processed::{REAP_ROWS_MAX, reap};
use service_kit::database::{self, Settings};
use sqlx::PgPool;
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, drain, event};

const ROWS: i64 = 50_000;
/// Messages of each measured batch.
const MESSAGES: i32 = 20;

/// A pool as a service has it, with one connection, so that every statement is prepared once.
fn pool(harness: &Harness) -> PgPool {
    let settings = Settings {
        database_url: harness.url.clone(),
        database_connections_max: 1,
        database_acquire_timeout_ms: 5_000,
        database_statement_timeout_ms: 10_000,
    };
    database::connect_lazy(&settings, "test").unwrap()
}

/// Makes the connection keep the plans that it makes now, on empty tables.
async fn force_generic_plans(pool: &PgPool) {
    sqlx::raw_sql("set plan_cache_mode = force_generic_plan")
        .execute(pool)
        .await
        .unwrap();
}

async fn execute(harness: &Harness, sql: &'static str) {
    sqlx::raw_sql(sql).execute(&harness.pool).await.unwrap();
}

async fn fill_processed(harness: &Harness, seconds_old: i64) {
    sqlx::query(
        "insert into processed_messages (consumer_group, message_id, processed_at)
         select $1, gen_random_uuid(), now() - make_interval(secs => $2)
         from generate_series(1, $3)",
    )
    .bind(&harness.group)
    .bind(seconds_old as f64)
    .bind(ROWS)
    .execute(&harness.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn processing_reads_no_more_pages_with_a_long_history() {
    let harness = Harness::create().await;
    let pool = pool(&harness);
    force_generic_plans(&pool).await;
    let mut consumer = inbox::Consumer::new(harness.settings(), pool, Effects::default()).unwrap();
    let order = Uuid::new_v4();
    let mut process = async |first: i32| {
        for number in first..first + MESSAGES {
            harness.topic.publish_to(0, &event(order, number)).await;
        }
        drain(&mut consumer, MESSAGES as usize).await;
    };
    // The first batch prepares the statements on empty tables.
    process(1).await;
    fill_processed(&harness, 10).await;
    execute(
        &harness,
        "insert into parked_orders (consumer_group, subject)
         select 'another', gen_random_uuid() from generate_series(1, 50000)",
    )
    .await;
    let mut count = PageCount::begin(&harness.url).await.unwrap();
    process(1 + MESSAGES).await;
    let pages = count.pages_of("insert into processed_messages").await;
    // About three levels of two indexes per row.
    let pages_max = 12 * i64::from(MESSAGES);
    let pages = pages.unwrap();
    assert!(pages <= pages_max, "{pages} pages for {MESSAGES} messages");
}

#[tokio::test]
async fn parking_reads_no_more_pages_with_many_parked_messages() {
    let harness = Harness::create().await;
    let pool = pool(&harness);
    force_generic_plans(&pool).await;
    let mut settings = harness.settings();
    settings.tries_max = 1;
    let orders: Vec<Uuid> = (0..2).map(|_| Uuid::new_v4()).collect();
    let poison: Vec<(Uuid, i32)> = orders.iter().map(|order| (*order, 1)).collect();
    let effects = Effects::poisoned(&poison);
    let mut consumer = inbox::Consumer::new(settings, pool, effects).unwrap();
    let mut park = async |order: Uuid| {
        harness.topic.publish_to(0, &event(order, 1)).await;
        harness.topic.publish_to(0, &event(order, 2)).await;
        let [fresh, _, parked, _] = crate::harness::drain_parking(&mut consumer, 2).await;
        assert_eq!((fresh, parked), (0, 2));
    };
    park(orders[0]).await;
    sqlx::query(
        "with blocked as (
             insert into parked_orders (consumer_group, subject)
             select $1, gen_random_uuid() from generate_series(1, $2) returning subject)
         insert into parked_messages (consumer_group, subject, identity, header_names,
             header_values, kafka_partition, kafka_offset, failed, cause, tries)
         select $1, subject, gen_random_uuid(), '{}', '{}', 0, 0, true, 'test', 1 from blocked",
    )
    .bind(&harness.group)
    .bind(ROWS)
    .execute(&harness.pool)
    .await
    .unwrap();
    let mut count = PageCount::begin(&harness.url).await.unwrap();
    park(orders[1]).await;
    let statements = count.statements().await.unwrap();
    for statement in statements {
        let pages_max = 40 * statement.calls;
        assert!(statement.pages <= pages_max, "{statement:#?}");
    }
}

#[tokio::test]
async fn reaping_reads_no_more_pages_with_a_long_history() {
    let harness = Harness::create().await;
    let pool = pool(&harness);
    force_generic_plans(&pool).await;
    let mut connection = pool.acquire().await.unwrap();
    let hour = Duration::from_secs(3_600);
    assert_eq!(reap(&mut connection, hour).await.unwrap(), 0);
    fill_processed(&harness, 10).await;
    let mut count = PageCount::begin(&harness.url).await.unwrap();
    assert_eq!(reap(&mut connection, hour).await.unwrap(), 0);
    let idle = count.pages_of("delete from processed_messages").await;
    let idle = idle.unwrap();
    assert!(idle <= 10, "{idle} pages to find nothing");
    fill_processed(&harness, 7_200).await;
    execute(&harness, "analyze processed_messages").await;
    count.restart().await.unwrap();
    let reaped = reap(&mut connection, hour).await.unwrap();
    assert_eq!(i64::try_from(reaped).unwrap(), REAP_ROWS_MAX);
    let pages = count.pages_of("delete from processed_messages").await;
    let pages = pages.unwrap();
    assert!(pages <= 6 * REAP_ROWS_MAX, "{pages} pages");
}
