//! The events of one order, as operators see them.

use outbox::{SHARDS, add_steps, shard_of};
use service_kit::database::{Settings, connect_lazy};
use sqlx::{ConnectOptions as _, PgPool};
use steps::Part;
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::harness::Harness;

/// Paths through the indexes of a few partitions.
const PAGES_MAX: i64 = 150;

const PUBLISHED: &str = "now()";
const UNPUBLISHED: &str = "null";

impl Harness {
    /// A pool as a service has it, with one connection, so that every statement is prepared once.
    fn service_pool(&self) -> PgPool {
        let settings = Settings {
            database_url: self.pool.connect_options().to_url_lossy().to_string(),
            database_connections_max: 1,
            database_acquire_timeout_ms: 5_000,
            database_statement_timeout_ms: 30_000,
        };
        connect_lazy(&settings, "test").unwrap()
    }

    /// Events of other orders, spread over all shards or all in one.
    async fn add_others(&self, rows: i32, shard: Option<i16>, published_at: &str) {
        let shard = shard.map_or(format!("n % {SHARDS}"), |shard| shard.to_string());
        let sql = format!(
            "insert into outbox (event_id, event_type, source, subject, shard, correlation_id, payload,
                                 published_at)
             select gen_random_uuid(), 'order.placed', 'order', gen_random_uuid(), {shard}, 'corr',
                    '{{}}', {published_at}
             from generate_series(1, {rows}) as n"
        );
        self.execute(sql).await;
    }

    async fn add_event(&self, order: Uuid, event_type: &str, published_at: &str) {
        let shard = shard_of(order);
        let sql = format!(
            "insert into outbox (event_id, event_type, source, subject, shard, correlation_id, payload,
                                 published_at)
             values (gen_random_uuid(), '{event_type}', 'order', '{order}', {shard}, 'corr', '{{}}',
                     {published_at})"
        );
        self.execute(sql).await;
    }

    async fn execute(&self, sql: String) {
        let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
        statement.execute(&self.pool).await.unwrap();
    }
}

async fn read(pool: &PgPool, order: Uuid) -> Part {
    let mut part = Part::new("order", order);
    let mut connection = pool.acquire().await.unwrap();
    add_steps(&mut connection, &mut part).await.unwrap();
    part.finish()
}

fn whats(part: &Part) -> Vec<&str> {
    part.steps.iter().map(|step| step.what.as_str()).collect()
}

#[tokio::test]
async fn events_of_one_order_are_found_among_many() {
    let harness = Harness::create().await;
    let (pool, order) = (harness.service_pool(), Uuid::new_v4());
    // Postgres keeps the plan of a prepared statement after some executions.
    for _ in 0..8 {
        assert!(read(&pool, order).await.steps.is_empty());
    }
    harness.add_others(50_000, None, PUBLISHED).await;
    harness.add_others(100, None, UNPUBLISHED).await;
    harness.add_event(order, "order.placed", PUBLISHED).await;
    harness
        .add_event(order, "order.cancelled", UNPUBLISHED)
        .await;
    let url = harness.pool.connect_options().to_url_lossy();
    let mut count = PageCount::begin(url.as_str()).await.unwrap();
    let part = read(&pool, order).await;
    let expected = [
        "event order.placed stored",
        "event order.placed published",
        "event order.cancelled stored",
    ];
    let mut told = whats(&part);
    told.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(told, sorted, "{part:#?}");
    let published = part.steps.iter().find(|it| it.what == expected[1]).unwrap();
    assert!(published.commit.is_some());
    let pages = count.pages_of("outbox").await.unwrap();
    assert!(
        pages <= PAGES_MAX,
        "{pages} pages: {:#?}",
        count.statements().await
    );
}

#[tokio::test]
async fn long_queue_is_noted() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.add_event(order, "order.placed", UNPUBLISHED).await;
    let shard = Some(shard_of(order));
    harness.add_others(999, shard, UNPUBLISHED).await;
    let pool = harness.service_pool();
    let part = read(&pool, order).await;
    assert_eq!(whats(&part), ["event order.placed stored"]);
    assert!(part.notes.is_empty(), "{part:#?}");
    harness.add_others(1, shard, UNPUBLISHED).await;
    let part = read(&pool, order).await;
    assert!(part.steps.is_empty() && part.notes.len() == 1, "{part:#?}");
}
