//! The checker over real tables of the provider: only money that moved counts.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in a helper function"
)]

mod mails;
mod migrated;
mod proof;
mod proof_cost;
mod tables;

use invariants::{Databases, always, for_operator, settled};
use sqlx::PgPool;

/// All databases, migrated.
async fn databases() -> Databases {
    let open = |url: String| PgPool::connect_lazy(&url).unwrap();
    Databases {
        order: open(migrated::order().await),
        payment: open(migrated::payment().await),
        receipt: open(migrated::receipt().await),
        fulfilment: open(migrated::fulfilment().await),
        psp: open(migrated::psp().await),
    }
}

async fn add_charge(psp: &PgPool, status: &str) {
    sqlx::query(
        "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                              status, created_at, outcome, settles_at)
         values (gen_random_uuid(), 'k', 'o-1', 5000, 'USD', 'pm', $1, now(), 'captured', now())",
    )
    .bind(status)
    .execute(psp)
    .await
    .unwrap();
}

async fn add_refund(psp: &PgPool, status: &str) {
    sqlx::query(
        "insert into refunds (id, charge_id, idempotency_key, reference, amount, currency,
                              status, created_at, outcome, settles_at)
         select gen_random_uuid(), id, 'back', 'o-1', 5000, 'USD', $1, now(), 'refunded', now()
         from charges where status = 'captured' order by id limit 1",
    )
    .bind(status)
    .execute(psp)
    .await
    .unwrap();
}

async fn violations(databases: &Databases) -> Vec<String> {
    let found = always(databases).await.unwrap();
    found.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn only_captured_charges_and_made_refunds_count() {
    let databases = databases().await;
    for status in ["captured", "pending", "failed"] {
        add_charge(&databases.psp, status).await;
    }
    for status in ["refunded", "pending", "failed"] {
        add_refund(&databases.psp, status).await;
    }
    assert!(violations(&databases).await.is_empty());

    add_refund(&databases.psp, "refunded").await;
    assert_eq!(
        violations(&databases).await,
        ["I1 one refund per charge: o-1 has 2"]
    );
    add_charge(&databases.psp, "captured").await;
    // The first one was refunded.
    let twice = "I1 one charge per order: o-1 has 2 (violated once, repaired)".to_owned();
    assert!(violations(&databases).await.contains(&twice));
}

async fn run(pool: &PgPool, sql: &'static str) {
    sqlx::raw_sql(sql).execute(pool).await.unwrap();
}

async fn listed(databases: &Databases) -> Vec<String> {
    let found = for_operator(databases).await.unwrap();
    found.iter().map(ToString::to_string).collect()
}

/// Order's database was restored to a state before this order.
#[tokio::test]
async fn lost_order_is_listed_for_operator() {
    let databases = databases().await;
    let id = "00000000-0000-0000-0000-000000000007";
    run(
        &databases.psp,
        "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                              status, created_at, outcome, settles_at)
         values (gen_random_uuid(), 'k', '00000000-0000-0000-0000-000000000007', 5000, 'USD', 'pm',
                 'captured', now(), 'captured', now())",
    )
    .await;
    run(
        &databases.payment,
        "insert into payments (order_id, attempt, amount, currency, payment_method, lines, status,
                               charge_id, correlation_id)
         values ('00000000-0000-0000-0000-000000000007', 1, 5000, 'USD', 'pm', '[]', 'captured',
                 'ch', 'c')",
    )
    .await;
    run(
        &databases.fulfilment,
        "insert into shipments (order_id, attempt, lines, status)
         values ('00000000-0000-0000-0000-000000000007', 1, '[]', 'shipped')",
    )
    .await;
    let lost = format!(
        "O1 order is lost: {id}: attempt 1 captured, 5000 USD, shipped (only an operator can settle it)"
    );
    assert_eq!(listed(&databases).await, [lost]);
    // Its money and its shipment are explained: nothing is violated.
    let found = settled(&databases).await.unwrap();
    assert!(found.is_empty(), "{found:?}");

    // The client places it again, under its id. Then it is no longer lost, and must ship like any other.
    run(
        &databases.order,
        "insert into orders (id, principal_id, customer_id, status, amount, currency,
                             payment_method, content_hash, correlation_id)
         values ('00000000-0000-0000-0000-000000000007', 'p', 'c', 'placed', 5000, 'USD', 'pm',
                 '', 'c')",
    )
    .await;
    assert!(listed(&databases).await.is_empty());
    let found = settled(&databases).await.unwrap();
    let broken: Vec<&str> = found.iter().map(|it| it.invariant).collect();
    for invariant in [
        "L1 every order is terminal",
        "L1 order and fulfilment agree",
        "I2 the money adds up",
        "E1 one mail per outcome",
    ] {
        assert!(broken.contains(&invariant), "{invariant}: {found:?}");
    }
}

#[tokio::test]
async fn what_waits_for_operator_is_listed() {
    let databases = databases().await;
    run(
        &databases.psp,
        "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                              status, created_at, outcome, settles_at)
         values (gen_random_uuid(), 'k', 'o-1', 900, 'USD', 'pm', 'captured', now(), 'captured',
                 now())",
    )
    .await;
    run(
        &databases.payment,
        "insert into unexplained_charges
            (charge_id, idempotency_key, reference, amount, currency, charged_at, status)
         values ('ch_1', 'k', 'o-1', 900, 'USD', now(), 'open')",
    )
    .await;
    run(
        &databases.receipt,
        "insert into parked_messages
            (consumer_group, identity, header_names, header_values, kafka_partition, kafka_offset,
             cause, tries, failed)
         values ('g', gen_random_uuid(), '{}', '{}', 0, 0, 'cause', 5, true)",
    )
    .await;
    let for_operator = "(only an operator can settle it)";
    let expected = [
        format!("O2 charge is unexplained: ch_1: 900 USD for o-1 {for_operator}"),
        format!("O4 message is parked: 1 in receipt {for_operator}"),
    ];
    assert_eq!(listed(&databases).await, expected);
    let found = settled(&databases).await.unwrap();
    assert!(found.is_empty(), "{found:?}");
    // An operator keeps the money: it is settled, and stays explained.
    run(
        &databases.payment,
        "update unexplained_charges set status = 'accepted', settled_at = now()",
    )
    .await;
    assert_eq!(listed(&databases).await, expected[1..]);
    let found = settled(&databases).await.unwrap();
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn failed_refunds_and_waiting_mails_are_listed() {
    let databases = databases().await;
    run(
        &databases.payment,
        "insert into refunds (charge_id, key, order_id, attempt, amount, currency, reason, status,
                              failure_code, correlation_id)
         values ('ch_1', 'refund:1', '00000000-0000-0000-0000-000000000007', 1, 900, 'USD',
                 'cancelled', 'failed', 'account_closed', 'c'),
                ('ch_2', 'refund:2', '00000000-0000-0000-0000-000000000008', 1, 900, 'USD',
                 'cancelled', 'pending', null, 'c')",
    )
    .await;
    run(
        &databases.receipt,
        "insert into receipts (event_id, mail_type, order_id, attempt, recipient, lines, status,
                               correlation_id, last_error, sent_at)
         select gen_random_uuid(), 'decline', gen_random_uuid(), 1, 'a@b', '[]', mail.status, 'c',
                'error', case mail.status when 'sent' then now() end
         from unnest(array['held', 'held', 'unknown', 'failed', 'pending', 'sent'])
            as mail (status)",
    )
    .await;
    let for_operator = "(only an operator can settle it)";
    let refund = "ch_1 of order 00000000-0000-0000-0000-000000000007: account_closed";
    let expected = [
        format!("O3 refund has failed: {refund} {for_operator}"),
        format!("O5 mail waits: 1 failed {for_operator}"),
        format!("O5 mail waits: 2 held {for_operator}"),
        format!("O5 mail waits: 1 unknown {for_operator}"),
    ];
    assert_eq!(listed(&databases).await, expected);
}
