//! The checker over real tables of the provider: only money that moved counts.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in a helper function"
)]

mod proof;
mod proof_cost;
mod tables;

use invariants::{Databases, always};
use sqlx::PgPool;
use testkit::postgres::database;

/// The provider's and fulfilment's databases, migrated. [`always`] reads no other.
async fn databases() -> Databases {
    let database_url = database::create_for_test("psp").await.unwrap();
    let psp = PgPool::connect_lazy(&database_url).unwrap();
    let migration = psp::config::Migration { database_url };
    psp::startup::migrate(migration).await.unwrap();
    let database_url = database::create_for_test("fulfilment").await.unwrap();
    let fulfilment = PgPool::connect_lazy(&database_url).unwrap();
    let migration = fulfilment::config::Migration {
        database_url,
        demo_data: false,
    };
    fulfilment::startup::migrate(migration).await.unwrap();
    Databases {
        order: fulfilment.clone(),
        payment: fulfilment.clone(),
        receipt: fulfilment.clone(),
        fulfilment,
        psp,
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
