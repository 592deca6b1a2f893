//! Statements read about what they return, with plans made on empty tables.

use order::domain::Status;
use order::store::orders::{self, Change};
use sqlx::PgPool;
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::eventually;
use crate::harness::{Harness, migrated, order, order_with};

/// Postgres uses a cached plan from the sixth execution on.
const EXECUTIONS: usize = 8;
/// Empty tables, whose statistics say so from now on.
const EMPTY_STATISTICS: &str = "
    alter table orders set (autovacuum_enabled = off);
    alter table order_items set (autovacuum_enabled = off);
    alter table idempotency_keys set (autovacuum_enabled = off);
    alter table processed_messages set (autovacuum_enabled = off);
    analyze;";
const FILL: &str = "
    insert into orders (id, principal_id, reference, customer_id, status, amount, currency,
                        payment_method, content_hash, correlation_id, created_at)
    select gen_random_uuid(), 'acme', 'filled-' || n, 'c', 'shipped', 1, 'USD', 'pm', '', 'corr',
           now() - make_interval(secs => n)
    from generate_series(1, 50000) as n;
    insert into order_items (order_id, line, sku, quantity, unit_price)
    select id, 100, 'SKU', 1, 1 from orders;
    insert into idempotency_keys (principal_id, route, key, fingerprint, expires_at)
    select 'acme', 'POST /orders', 'filled-' || n, '', now() + interval '1 day'
    from generate_series(1, 50000) as n;
    insert into processed_messages (consumer_group, message_id)
    select 'order', gen_random_uuid() from generate_series(1, 50000);";
/// A statement reads a few paths through indexes, for a handful of rows.
const PAGES_PER_CALL: i64 = 120;
/// The relay returns many rows: each is one entry of the index, one of the table, and its long columns.
const PAGES_PER_ROW: i64 = 4;

/// The service's statements, once: place, replay, read, list, pay again, cancel, apply an event.
async fn run_all(harness: &Harness, pool: &PgPool) {
    let key = Uuid::new_v4().to_string();
    let placed = harness.post(&key, &order()).await.order_id();
    harness.post(&key, &order()).await.expect(201);
    harness.put(Uuid::new_v4(), &order()).await.expect(201);
    let (first, second) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let referenced = order_with("reference", first.clone());
    harness.post(&first, &referenced).await.expect(201);
    harness.post(&second, &referenced).await.expect(200);
    harness.get(&format!("/orders/{placed}")).await.expect(200);
    harness.get("/orders?limit=5").await.expect(200);
    harness.get("/orders?status=declined").await.expect(200);
    let change = |version, status, steps| Change {
        id: placed,
        version,
        status,
        attempt: 1,
        cancel_requested: false,
        steps,
    };
    let mut connection = pool.acquire().await.unwrap();
    let declined = [change(1, Status::Declined, 1)];
    let applied = orders::apply(&mut connection, &declined).await.unwrap();
    assert_eq!(applied, 1);
    let paying = Uuid::new_v4().to_string();
    harness.pay(&paying, placed, "pm_card_ok").await.expect(201);
    harness.delete(placed).await.expect(204);
    let part = crate::timeline::read(&mut connection, placed).await;
    assert!(part.key.is_some() && part.steps.len() >= 6, "{part:#?}");
}

#[tokio::test]
async fn statements_read_what_they_return_with_plans_of_empty_tables() {
    let url = migrated().await;
    let harness = Harness::start_on(&url, |config| {
        config.application.database.database_connections_max = 2;
        config.application.retention.reaper_interval_ms = 50;
        config.intake_writers = 1;
    })
    .await;
    harness.run_sql(EMPTY_STATISTICS).await;
    let settings = service_kit::database::Settings {
        database_url: url.clone(),
        database_connections_max: 1,
        database_acquire_timeout_ms: 15_000,
        database_statement_timeout_ms: 60_000,
    };
    let pool = service_kit::database::connect_lazy(&settings, "order").unwrap();
    for _ in 0..EXECUTIONS {
        run_all(&harness, &pool).await;
    }
    harness.run_sql(FILL).await;
    let mut count = PageCount::begin(&url).await.unwrap();
    run_all(&harness, &pool).await;
    // The reaper looks for expired keys and old processed messages.
    eventually("the reaper has run", async || {
        let statements = count.statements().await.unwrap();
        let reaped = |table: &str| {
            let mut deletes = statements.iter();
            deletes.any(|it| it.statement.contains("delete") && it.statement.contains(table))
        };
        (reaped("idempotency_keys") && reaped("processed_messages")).then_some(())
    })
    .await;
    for statement in count.statements().await.unwrap() {
        // The reaper also creates partitions, which reads the catalog.
        let is_definition = ["create", "alter"]
            .iter()
            .any(|word| statement.statement.starts_with(word));
        let limit = PAGES_PER_CALL * statement.calls + PAGES_PER_ROW * statement.rows;
        assert!(is_definition || statement.pages <= limit, "{statement:#?}");
    }
}
