//! Refunds work like charges: they have a key, a lease and unknown outcomes.

use serde_json::json;
use uuid::Uuid;
use wiremock::{Request, ResponseTemplate};

use crate::harness::{Harness, LONG};
use crate::provider::{
    charge_of, mount_captures, mount_first_refund_responses, mount_refund_look_up, mount_refunds,
    request_bodies,
};
use crate::rejections::reject;

#[derive(Debug, PartialEq, sqlx::FromRow)]
struct Refund {
    status: String,
    tries: i32,
    key: String,
    last_error: Option<String>,
    refund_id: Option<String>,
}

async fn refund(harness: &Harness) -> Refund {
    sqlx::query_as("select status, tries, key, last_error, refund_id from refunds")
        .fetch_one(&harness.pool)
        .await
        .unwrap()
}

/// An order whose payment was captured and that fulfilment then rejected.
async fn captured_then_rejected(harness: &Harness) -> Uuid {
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    harness.step().await;
    reject(harness, order, 1).await;
    order
}

#[tokio::test]
async fn refund_without_an_answer_is_retried_with_the_same_key() {
    let harness = Harness::create().await;
    for status in [500, 409, 429, 404, 422] {
        mount_first_refund_responses(&harness.psp, 1, ResponseTemplate::new(status)).await;
    }
    mount_refunds(&harness.psp).await;
    let order = captured_then_rejected(&harness).await;
    for (tries, status) in (1..).zip([500, 409, 429, 404, 422]) {
        assert_eq!(harness.step().await, 0);
        let refund = refund(&harness).await;
        assert_eq!((&*refund.status, refund.tries), ("unknown", tries));
        assert_eq!(refund.last_error, Some(format!("status {status}")));
    }
    assert_eq!(harness.step().await, 1);
    let settled = refund(&harness).await;
    assert_eq!(settled.status, "refunded");
    assert_eq!(settled.refund_id, Some(format!("re_ch_{order}")));
    let requests = harness.psp.received_requests().await.unwrap();
    let key = |request: &Request| {
        request.headers["idempotency-key"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    let sent = |it: &&Request| it.method.as_str() == "POST" && it.url.path() == "/v1/refunds";
    let refunds = requests.iter().filter(sent);
    let keys: Vec<String> = refunds.map(key).collect();
    assert_eq!(keys, vec![format!("refund:{order}:1"); 6]);
}

#[tokio::test]
async fn stale_refund_answer_is_discarded() {
    let harness = Harness::create().await;
    mount_refunds(&harness.psp).await;
    let order = captured_then_rejected(&harness).await;
    let zombie = harness.stepper(LONG).call().await;
    harness.pass_time().await;
    let successor = harness.stepper(LONG).call().await;
    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    assert_eq!(harness.record(&successor).await.unwrap(), 1);
    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    let events = harness.events(order).await;
    let refunded = events.iter().filter(|(kind, _)| kind == "payment.refunded");
    assert_eq!(refunded.count(), 1);
}

#[tokio::test]
async fn refund_is_looked_up_after_the_key_window() {
    let harness = Harness::create().await;
    let order = captured_then_rejected(&harness).await;
    assert_eq!(harness.step().await, 0, "nothing is mounted");
    harness
        .execute("update refunds set first_called_at = now() - interval '1 day'")
        .await;
    let key = format!("refund:{order}:1");
    let of_charge = |id: &str, key: &str| {
        let mut refund = charge_of(order, id, key);
        refund["status"] = json!("refunded");
        refund["charge_id"] = json!(format!("ch_{order}"));
        refund
    };
    // The first one belongs to another charge: the provider ignores the filter.
    let mut other = of_charge("re_other", "other");
    other["charge_id"] = json!("ch_other");
    let found = json!([other, of_charge("re_found", &key)]);
    mount_refund_look_up(&harness.psp, found).await;
    assert_eq!(harness.step().await, 1);
    assert_eq!(
        refund(&harness).await.refund_id.as_deref(),
        Some("re_found")
    );
    assert_eq!(
        request_bodies(&harness.psp, "POST", "/v1/refunds")
            .await
            .len(),
        0,
        "never sent: the first lookup had no answer"
    );
}

#[tokio::test]
async fn refund_and_its_event_are_one_commit() {
    let harness = Harness::create().await;
    mount_refunds(&harness.psp).await;
    let order = captured_then_rejected(&harness).await;
    harness.execute("alter table outbox rename to broken").await;
    harness.pass_time().await;
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap_err();
    assert_eq!(refund(&harness).await.status, "pending");
    harness.execute("alter table broken rename to outbox").await;
    assert_eq!(harness.step().await, 1);
    assert_eq!(refund(&harness).await.status, "refunded");
    assert_eq!(harness.events(order).await.len(), 2);
}
