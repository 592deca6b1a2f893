//! The first event about an order decides whether it ships, once.

use uuid::Uuid;

use crate::harness::Harness;

const STOCK: [(&str, i64); 1] = [("SKU-1", 1_000)];
const TWO: [(&str, u32); 1] = [("SKU-1", 2)];

/// Order, attempt, status and reason of every shipment, and the events about it. A repeat must
/// change none of these.
async fn decisions(harness: &Harness) -> Vec<(Uuid, i32, String, Option<String>, Vec<String>)> {
    sqlx::query_as(
        "select order_id, attempt, status, reason, array(
            select format('%s %s %s', event_type, payload::jsonb ->> 'attempt',
                          payload::jsonb ->> 'reason')
            from outbox where subject = order_id order by id)
         from shipments order by order_id",
    )
    .fetch_all(&harness.pool)
    .await
    .unwrap()
}

fn cancelled(order: Uuid) -> (Uuid, i32, String, Option<String>, Vec<String>) {
    let announced = vec!["fulfilment.rejected 1 cancelled".to_owned()];
    let reason = Some("cancelled".to_owned());
    (order, 1, "cancelled".to_owned(), reason, announced)
}

fn shipped(order: Uuid) -> (Uuid, i32, String, Option<String>, Vec<String>) {
    let announced = vec!["fulfilment.shipped 1 ".to_owned()];
    (order, 1, "shipped".to_owned(), None, announced)
}

#[tokio::test]
async fn cancelled_order_does_not_ship_when_paid_later() {
    let harness = Harness::create(&STOCK).await;
    let order = Uuid::new_v4();
    let running = harness.start(&harness.group).await;
    harness.topic.cancel_requested(order).await;
    harness.processed(1).await;
    assert_eq!(decisions(&harness).await, [cancelled(order)]);
    // The payment arrives in another batch. Payment refunds it because of the rejection above.
    harness.topic.captured(order, &TWO).await;
    harness.processed(2).await;
    running.stop().await;
    assert_eq!(decisions(&harness).await, [cancelled(order)]);
    assert_eq!(harness.stock("SKU-1").await, (1_000, 0));
    let correlated = "select count(*) from outbox where correlation_id = 'corr-' || subject";
    assert_eq!(harness.count(correlated).await, 1);
}

#[tokio::test]
async fn shipped_order_cannot_be_cancelled() {
    let harness = Harness::create(&STOCK).await;
    let order = Uuid::new_v4();
    let running = harness.start(&harness.group).await;
    harness.topic.captured(order, &TWO).await;
    harness.processed(1).await;
    harness.topic.cancel_requested(order).await;
    harness.processed(2).await;
    running.stop().await;
    assert_eq!(decisions(&harness).await, [shipped(order)]);
    assert_eq!(harness.stock("SKU-1").await, (998, 2));
}

#[tokio::test]
async fn out_of_stock_order_is_rejected_once_if_cancelled_later() {
    let harness = Harness::create(&[("SKU-1", 1)]).await;
    let order = Uuid::new_v4();
    let running = harness.start(&harness.group).await;
    harness.topic.captured(order, &TWO).await;
    harness.processed(1).await;
    harness.topic.cancel_requested(order).await;
    harness.processed(2).await;
    running.stop().await;
    let announced = vec!["fulfilment.rejected 1 out_of_stock".to_owned()];
    let reason = Some("out_of_stock".to_owned());
    let rejected = (order, 1, "rejected".to_owned(), reason, announced);
    assert_eq!(decisions(&harness).await, [rejected]);
    assert_eq!(harness.stock("SKU-1").await, (1, 0));
}

#[tokio::test]
async fn first_event_decides_within_one_batch() {
    let harness = Harness::create(&STOCK).await;
    let mut expected = Vec::new();
    // All messages are in the topic before the consumer starts.
    for number in 0..20 {
        let order = Uuid::new_v4();
        if number % 2 == 0 {
            harness.topic.captured(order, &TWO).await;
            harness.topic.cancel_requested(order).await;
            expected.push(shipped(order));
        } else {
            harness.topic.cancel_requested(order).await;
            harness.topic.captured(order, &TWO).await;
            expected.push(cancelled(order));
        }
    }
    let running = harness.start(&harness.group).await;
    harness.processed(40).await;
    running.stop().await;
    expected.sort_by_key(|decision| decision.0);
    assert_eq!(decisions(&harness).await, expected);
    assert_eq!(harness.stock("SKU-1").await, (980, 20));
    // One transaction writes one timestamp: fewer timestamps than messages prove batches.
    let batches = "select count(distinct processed_at) from processed_messages";
    assert!(
        harness.count(batches).await < 20,
        "no two messages shared a batch"
    );
}

#[tokio::test]
async fn reprocessing_all_messages_changes_nothing() {
    let harness = Harness::create(&STOCK).await;
    let (early, late, never) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    harness.topic.cancel_requested(early).await;
    harness.topic.captured(early, &TWO).await;
    harness.topic.captured(late, &TWO).await;
    harness.topic.cancel_requested(late).await;
    harness.topic.cancel_requested(never).await;
    let running = harness.start(&harness.group).await;
    harness.processed(5).await;
    running.stop().await;
    let before = decisions(&harness).await;
    let mut expected = [cancelled(early), shipped(late), cancelled(never)];
    expected.sort_by_key(|decision| decision.0);
    assert_eq!(before, expected);

    harness.execute("delete from processed_messages").await;
    let other = format!("fulfilment-{}", Uuid::new_v4());
    let running = harness.start(&other).await;
    harness.processed(5).await;
    running.stop().await;
    assert_eq!(decisions(&harness).await, before);
    assert_eq!(harness.stock("SKU-1").await, (998, 2));
}

#[tokio::test]
async fn later_attempt_of_a_rejected_order_is_rejected() {
    let harness = Harness::create(&STOCK).await;
    let (apart, together) = (Uuid::new_v4(), Uuid::new_v4());
    harness.topic.cancel_requested(together).await;
    harness.topic.captured_by(together, 2, &TWO).await;
    harness.topic.cancel_requested(apart).await;
    let running = harness.start(&harness.group).await;
    harness.processed(3).await;
    harness.topic.captured_by(apart, 2, &TWO).await;
    harness.processed(4).await;
    running.stop().await;
    let rejected_twice = |order| {
        let announced =
            ["1", "2"].map(|attempt| format!("fulfilment.rejected {attempt} cancelled"));
        let reason = Some("cancelled".to_owned());
        (order, 2, "cancelled".to_owned(), reason, announced.to_vec())
    };
    let mut expected = [rejected_twice(apart), rejected_twice(together)];
    expected.sort_by_key(|decision| decision.0);
    assert_eq!(decisions(&harness).await, expected);

    let other = format!("fulfilment-{}", Uuid::new_v4());
    let running = harness.start(&other).await;
    harness.processed(8).await;
    running.stop().await;
    assert_eq!(decisions(&harness).await, expected);
    assert_eq!(harness.stock("SKU-1").await, (1_000, 0));
}
