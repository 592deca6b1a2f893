//! After a failed payment, the order service opens the next attempt or announces once that the order waits for
//! its customer.

use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use crate::eventually;
use crate::following::{Listener, seen};
use crate::harness::{Harness, migrated};
use crate::topic::EventKind::{Captured, Failed, FailedForRetry, Voided};
use crate::topic::Topic;

/// Rejects every event that is written.
const REJECT_EVENTS: &str = "
    create function reject() returns trigger language plpgsql as
    $$ begin raise exception 'rejected'; end $$;
    create trigger reject before insert on outbox for each row execute function reject()";
/// The default of `PAYMENT_REOPENS_MAX`.
const REOPENS_MAX: i32 = 3;

/// The payloads of `order.payment_failed`, in the order in which they were written.
async fn announced(pool: &PgPool, id: Uuid) -> Vec<Value> {
    let payloads: Vec<String> = sqlx::query_scalar(
        "select payload from outbox where subject = $1 and event_type = 'order.payment_failed'
         order by id",
    )
    .bind(id)
    .fetch_all(pool)
    .await
    .unwrap();
    let payloads = payloads.iter();
    payloads
        .map(|payload| serde_json::from_str(payload).unwrap())
        .collect()
}

async fn attempts_announced(harness: &Harness, id: Uuid) -> Vec<Value> {
    let announced = announced(&harness.pool, id).await.into_iter();
    announced.map(|event| event["attempt"].clone()).collect()
}

#[tokio::test]
async fn failed_payment_is_announced_with_what_a_mail_needs() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let id = harness.order_in("placed").await;
    topic.publish_event(id, 1, Failed).await;
    listener.processed(1).await;
    assert_eq!(seen(harness, id).await, json!(["failed", 2, 1, false]));
    let expected = json!({
        "v": 1, "order_id": id, "attempt": 1, "customer_id": "cust-88",
        "failure_code": "amount_too_small", "due": {"amount": 5000, "currency": "USD"},
    });
    assert_eq!(announced(&harness.pool, id).await, [expected]);
}

#[tokio::test]
async fn each_failed_payment_is_announced_once() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let [paid_again, waiting] = [
        harness.order_in("placed").await,
        harness.order_in("placed").await,
    ];
    for id in [paid_again, waiting] {
        topic.publish_event(id, 1, Failed).await;
    }
    listener.processed(2).await;
    let paid = harness.pay("k-1", paid_again, "pm_other").await;
    paid.expect(201);
    topic.publish_event(paid_again, 2, Failed).await;
    listener.processed(3).await;

    // Everything is redelivered to a group that has not processed any message. The same message once more
    // changes nothing either.
    let again = Listener::start(&database_url, &topic).await;
    topic.publish_event(paid_again, 1, Failed).await;
    topic.publish_event(waiting, 1, Failed).await;
    let last = harness.order_in("placed").await;
    topic.publish_event(last, 1, Captured).await;
    again.processed(4).await;
    assert_eq!(attempts_announced(harness, paid_again).await, [1, 2]);
    assert_eq!(attempts_announced(harness, waiting).await, [1]);
    assert_eq!(attempts_announced(harness, last).await, [0; 0]);
}

/// The provider repeats an error under each key. The customer hears of it when no attempts are left.
#[tokio::test]
async fn only_the_last_reopened_attempt_is_announced() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let id = harness.order_in("placed").await;
    for attempt in 1..=REOPENS_MAX {
        topic.publish_event(id, attempt, FailedForRetry).await;
        listener.processed(attempt.into()).await;
        let next = json!(["placed", 2 * attempt + 1, attempt + 1, false]);
        assert_eq!(seen(harness, id).await, next);
        assert_eq!(attempts_announced(harness, id).await, [0; 0]);
    }
    let last = REOPENS_MAX + 1;
    topic.publish_event(id, last, FailedForRetry).await;
    listener.processed(last.into()).await;
    let end = json!(["failed", 2 * last, last, false]);
    assert_eq!(seen(harness, id).await, end);
    assert_eq!(attempts_announced(harness, id).await, [last]);
    let requested = harness.events(id, "order.payment_requested").await;
    assert_eq!(requested, i64::from(REOPENS_MAX));

    let again = Listener::start(&database_url, &topic).await;
    again.processed(last.into()).await;
    assert_eq!(seen(harness, id).await, end);
    assert_eq!(attempts_announced(harness, id).await, [last]);
}

/// The customer cannot pay an order again after a cancellation request, so nothing says so.
#[tokio::test]
async fn failure_after_a_cancellation_request_is_not_announced() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    for (messages, kind) in [(2, Failed), (4, FailedForRetry)] {
        let id = harness.order_in("placed").await;
        harness.delete(id).await.expect(204);
        topic.publish_event(id, 1, kind).await;
        topic.publish_event(id, 1, Voided).await;
        listener.processed(messages).await;
        assert_eq!(seen(harness, id).await, json!(["cancelled", 4, 1, true]));
        assert_eq!(attempts_announced(harness, id).await, [0; 0]);
    }
}

/// Without its event, the change is not stored either.
#[tokio::test]
async fn failed_order_and_its_event_are_one_commit() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let id = harness.order_in("placed").await;
    harness.run_sql(REJECT_EVENTS).await;
    topic.publish_event(id, 1, Failed).await;
    eventually("the message is parked", async || {
        let parked = sqlx::query_scalar("select count(*) from parked_messages");
        let parked: i64 = parked.fetch_one(&harness.pool).await.unwrap();
        (parked == 1).then_some(())
    })
    .await;
    assert_eq!(seen(harness, id).await, json!(["placed", 1, 1, false]));
}
