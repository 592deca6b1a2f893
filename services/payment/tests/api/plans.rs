//! Statements read about what they return: with any statistics, and with plans made on empty tables.

use std::time::Duration;

use payment::domain::provider_key::charge_key;
use payment::domain::{AttemptStatus, RefundStatus};
use payment::store::{open_work, operator, reconciliations};
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::harness::{Harness, LONG};
use crate::provider::{mount_captures, mount_refunds};
use crate::reconciling::{by_operator, charge, mount_ledger, reconciler};
use crate::rejections::reject;
use crate::stepper::Stepper;

/// Postgres uses a cached plan from the sixth execution on.
const EXECUTIONS: usize = 8;
/// Settled rows, with charges older than the reconciler's range.
const FILL: &str = "
    insert into payments (order_id, attempt, amount, currency, payment_method, lines, principal,
                          status, charge_id, correlation_id)
    select gen_random_uuid(), 1, 100, 'USD', 'pm', '[]', 'acme', 'captured', '!' || n, 'c'
    from generate_series(1, 20000) as n;
    insert into refunds (charge_id, key, order_id, attempt, amount, currency, reason, status,
                         refund_id, correlation_id, principal)
    select '!' || n, 'refund:' || n, gen_random_uuid(), 1, 100, 'USD', 'r', 'refunded',
           're-' || n, 'c', 'acme'
    from generate_series(1, 20000) as n;";
const BACKLOG: &str = "
    insert into payments (order_id, attempt, amount, currency, payment_method, lines, principal,
                          status, tries, correlation_id)
    select gen_random_uuid(), 1, 100, 'USD', 'pm', '[]', 'acme',
           case n % 2 when 0 then 'pending' else 'unknown' end, n % 2, 'c'
    from generate_series(1, 100000) as n;
    insert into refunds (charge_id, key, order_id, attempt, amount, currency, reason, status,
                         correlation_id, principal)
    select 'open-' || n, 'refund:open-' || n, gen_random_uuid(), 1, 100, 'USD', 'r', 'pending',
           'c', 'acme'
    from generate_series(1, 20000) as n;";
/// Empty tables, whose statistics say so from now on.
const EMPTY_STATISTICS: &str = "
    alter table payments set (autovacuum_enabled = off);
    alter table refunds set (autovacuum_enabled = off);
    alter table charged_principals set (autovacuum_enabled = off);
    analyze;";
const PLANS: [&str; 2] = ["", "?options[plan_cache_mode]=force_generic_plan"];
/// More pages than this for each row mean that a statement reads rows that it does not return.
const PAGES_PER_ROW: i64 = 60;

/// Runs every statement of chargers, recorder, consumer, reconciler and gauges once. Returns the number
/// of rows that they worked on.
async fn run_all(harness: &Harness, stepper: &mut Stepper) -> i64 {
    let found = harness.open_new().await;
    harness.psp.reset().await;
    mount_captures(&harness.psp).await;
    mount_refunds(&harness.psp).await;
    let in_books = charge(Uuid::now_v7(), found, charge_key(found, 1));
    mount_ledger(harness, vec![in_books]).await;
    let reconciler = reconciler(harness, Duration::ZERO);
    let report = reconciler.reconcile(&by_operator(false)).await.unwrap();
    assert_eq!(report.settled, 1);

    let order = harness.open_new().await;
    let answers = stepper.call().await;
    harness.record(&answers).await.unwrap();
    reject(harness, order, 1).await;
    reject(harness, Uuid::new_v4(), 1).await;
    let more = stepper.call().await;
    harness.record(&more).await.unwrap();
    answers.len() as i64 + more.len() as i64
}

/// Fails if a statement has read many more pages than its rows need.
async fn check(count: &mut PageCount, rows: i64, what: &str) {
    for statement in count.statements().await.unwrap() {
        let limit = 100 * statement.calls + PAGES_PER_ROW * rows;
        assert!(statement.pages <= limit, "{what}: {statement:#?}");
    }
}

#[tokio::test]
async fn statements_read_what_they_return_with_any_plan() {
    for plans in PLANS {
        let harness = Harness::create().await.with_service_options(plans);
        harness.execute(EMPTY_STATISTICS).await;
        let mut stepper = harness.stepper(LONG);
        for _ in 0..EXECUTIONS {
            run_all(&harness, &mut stepper).await;
        }
        let mut count = PageCount::begin(&harness.url).await.unwrap();

        harness.execute(FILL).await;
        count.restart().await.unwrap();
        let rows = run_all(&harness, &mut stepper).await;
        assert!(rows >= 2, "{rows} rows");
        check(&mut count, rows, "without a backlog").await;

        harness.execute(BACKLOG).await;
        count.restart().await.unwrap();
        let rows = run_all(&harness, &mut stepper).await;
        assert!(rows > 200, "{rows} rows");
        check(&mut count, rows, "with a backlog").await;
    }
}

#[tokio::test]
async fn page_of_captured_attempts_reads_what_it_returns() {
    const LIMIT: i64 = 5_000;
    /// As many as [`FILL`] has before the page.
    const FILL_AFTER: &str = "
        insert into payments (order_id, attempt, amount, currency, payment_method, lines, principal,
                              status, charge_id, correlation_id)
        select gen_random_uuid(), 1, 100, 'USD', 'pm', '[]', 'acme', 'captured', '~' || n, 'c'
        from generate_series(1, 20000) as n;
        insert into payments (order_id, attempt, amount, currency, payment_method, lines, principal,
                              status, charge_id, correlation_id)
        select gen_random_uuid(), 1, 100, 'USD', 'pm', '[]', 'acme', 'captured', 'a' || n, 'c'
        from generate_series(1, 9) as n;";
    let harness = Harness::create().await.with_service_options(PLANS[1]);
    harness.execute(EMPTY_STATISTICS).await;
    let mut connection = harness.pool.acquire().await.unwrap();
    let mut captured = async |after, last| {
        let attempts =
            reconciliations::captured(&mut connection, after, last, Duration::ZERO, LIMIT);
        attempts.await.unwrap().len()
    };
    assert_eq!(captured("a", Some("b")).await, 0);
    harness.execute(FILL).await;
    harness.execute(FILL_AFTER).await;
    let mut count = PageCount::begin(&harness.url).await.unwrap();
    assert_eq!(captured("a", Some("b")).await, 9);
    assert_eq!(captured("a", Some("a")).await, 0);
    assert_eq!(captured("~99", None).await, 110);
    assert_eq!(captured("~~", None).await, 0);
    for statement in count.statements().await.unwrap() {
        assert!(statement.pages < 1_000, "{statement:#?}");
    }
}

#[tokio::test]
async fn gauges_count_to_a_limit() {
    let harness = Harness::create().await.with_service_options(PLANS[1]);
    harness.execute(EMPTY_STATISTICS).await;
    let mut connection = harness.pool.acquire().await.unwrap();
    open_work::count(&mut connection).await.unwrap();
    drop(connection);
    harness.execute(FILL).await;
    harness.execute(BACKLOG).await;
    let mut count = PageCount::begin(&harness.url).await.unwrap();
    let mut connection = harness.pool.acquire().await.unwrap();
    let open = open_work::count(&mut connection).await.unwrap();
    assert_eq!(open.pending.count, 10_000);
    for statement in count.statements().await.unwrap() {
        assert!(statement.pages < 12_000, "{statement:#?}");
    }
}

#[tokio::test]
async fn list_of_open_payments_reads_what_it_returns() {
    const LIMIT: i64 = 20;
    let harness = Harness::create().await.with_service_options(PLANS[1]);
    harness.execute(EMPTY_STATISTICS).await;
    let mut connection = harness.pool.acquire().await.unwrap();
    let (pending, refunds) = (AttemptStatus::Pending, RefundStatus::Pending);
    let listed = operator::open_attempts(&mut connection, pending, LIMIT).await;
    assert!(listed.unwrap().is_empty());
    let listed = operator::open_refunds(&mut connection, refunds, LIMIT).await;
    assert!(listed.unwrap().is_empty());
    let oldest = harness.open_for("globex", Uuid::new_v4(), 1).await;
    oldest.unwrap();
    // Adds the principal of the backlog.
    harness.open_new().await;
    harness.execute(BACKLOG).await;
    let mut count = PageCount::begin(&harness.url).await.unwrap();
    let listed = operator::open_attempts(&mut connection, pending, LIMIT).await;
    let listed = listed.unwrap();
    assert_eq!(listed.len(), LIMIT as usize);
    assert!(listed.is_sorted_by_key(|it| it.next_try_at));
    let listed = operator::open_refunds(&mut connection, refunds, LIMIT).await;
    assert_eq!(listed.unwrap().len(), LIMIT as usize);
    for statement in count.statements().await.unwrap() {
        assert!(statement.pages < 10 * LIMIT, "{statement:#?}");
    }
}
