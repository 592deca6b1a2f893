//! The proof turns red when the provider's books show a second charge, and amber when it is refunded.

use endpoints::{Service, database};
use serde_json::Value;
use sqlx::PgPool;
use testkit::polling::eventually_some;
use uuid::Uuid;

use crate::harness::Harness;

#[tokio::test]
async fn second_charge_is_red_and_its_refund_makes_it_amber() {
    let harness = Harness::start().await;
    let order = harness.place("once").await["order_id"].clone();
    let order = order.as_str().unwrap();
    harness.timeline_when(order, "shipped").await;
    let system = harness.system.as_ref().unwrap();
    let psp = database::connect(system.database_url(Service::Psp))
        .await
        .unwrap();
    let charge = charge_again(&psp, order).await;
    let proof = when(&harness, "violated").await;
    assert_eq!(proof["charged_more"], 1);
    assert_eq!(proof["problems"][0]["order_id"], order);
    refund(&psp, charge, order).await;
    let proof = when(&harness, "repaired").await;
    assert_eq!(proof["problems"][0]["severity"], "repaired");
    psp.close().await;
    harness.stop().await;
}

async fn when(harness: &Harness, verdict: &str) -> Value {
    eventually_some(&format!("the verdict is {verdict}"), async || {
        let proof = harness.state().await["proof"].clone();
        (proof["verdict"] == verdict).then_some(proof)
    })
    .await
}

async fn charge_again(psp: &PgPool, order: &str) -> Uuid {
    let id = Uuid::now_v7();
    sqlx::query(
        "insert into charges (id, idempotency_key, reference, amount, currency, payment_method, status, created_at)
         values ($1, $2, $3, 5000, 'USD', 'pm_card_ok', 'captured', now())",
    )
    .bind(id)
    .bind(format!("by-hand:{id}"))
    .bind(order)
    .execute(psp)
    .await
    .unwrap();
    id
}

async fn refund(psp: &PgPool, charge: Uuid, order: &str) {
    sqlx::query(
        "insert into refunds (id, charge_id, idempotency_key, reference, amount, currency, status, created_at)
         values ($1, $2, $3, $4, 5000, 'USD', 'refunded', now())",
    )
    .bind(Uuid::now_v7())
    .bind(charge)
    .bind(format!("by-hand-refund:{charge}"))
    .bind(order)
    .execute(psp)
    .await
    .unwrap();
}
