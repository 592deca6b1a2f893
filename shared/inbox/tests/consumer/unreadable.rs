//! Messages that cannot be decoded are parked and do not stop the consumer.

use events::header;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, drain_parking, event};
use crate::operator::Operator;

#[tokio::test]
async fn unreadable_wanted_message_is_parked_alone() {
    parked_alone(&[(header::TYPE, "fulfilment.shipped")]).await;
}

#[tokio::test]
async fn message_without_a_type_is_parked() {
    parked_alone(&[]).await;
}

async fn parked_alone(headers: &[(&str, &str)]) {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    harness
        .topic
        .publish_raw(0, headers, "no id, no order")
        .await;
    harness.topic.publish_to(0, &event(order, 2)).await;
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain_parking(&mut consumer, 3).await, [2, 0, 1, 0]);
    assert_eq!(harness.effects(order).await, [1, 2]);

    let operator = Operator::of(&consumer, &harness.pool).await;
    let id = operator.first_id().await;
    let seen = operator.inspect(id).await;
    assert_eq!(seen["payload"], "no id, no order");
    assert_eq!(
        (&seen["order_id"], &seen["tries"]),
        (&serde_json::Value::Null, &0.into())
    );
    assert_eq!(seen["offset"], 1);
    let headers: Vec<_> = headers
        .iter()
        .map(|(n, v)| serde_json::json!([n, v]))
        .collect();
    assert_eq!(seen["headers"], serde_json::Value::from(headers));

    // It stays unreadable, so a redrive fails. An operator can only discard it.
    assert_eq!(operator.redrive(id).await, [0, 0, 1]);
    assert_eq!(operator.inspect(id).await["tries"], 1);
    assert_eq!(operator.discard(id).await, (true, [0, 0, 0]));
    assert_eq!(harness.parked_count().await, 0);
}

#[tokio::test]
async fn unreadable_message_blocks_only_its_order() {
    let harness = Harness::create().await;
    let (order, other) = (Uuid::new_v4(), Uuid::new_v4());
    let subject = order.to_string();
    let headers = [
        (header::TYPE, "fulfilment.shipped"),
        (header::SUBJECT, &*subject),
    ];
    harness.topic.publish_to(0, &event(order, 1)).await;
    harness.topic.publish_raw(0, &headers, b"\xff\xfe\0").await;
    harness.topic.publish_to(0, &event(order, 2)).await;
    harness.topic.publish_to(0, &event(other, 1)).await;
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain_parking(&mut consumer, 4).await, [2, 0, 2, 0]);
    assert_eq!(harness.effects(order).await, [1]);
    assert_eq!(harness.effects(other).await, [1]);

    let operator = Operator::of(&consumer, &harness.pool).await;
    let failed: Vec<_> = operator
        .list()
        .await
        .iter()
        .map(|it| it["failed"].clone())
        .collect();
    assert_eq!(failed, [true, false]);
    let id = operator.first_id().await;
    assert_eq!(operator.inspect(id).await["payload"], "\\xfffe00");
    assert_eq!(operator.discard(id).await, (true, [1, 0, 0]));
    assert_eq!(harness.effects(order).await, [1, 2]);
}

#[tokio::test]
async fn any_header_content_can_be_parked() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4().to_string();
    for headers in [
        [(header::TYPE, "a\0b"), (header::SUBJECT, "a\0b")],
        [(header::ID, "a\0b"), (header::SUBJECT, &order)],
        [(header::TYPE, "fulfilment.shipped"), (header::ID, &order)],
    ] {
        harness.topic.publish_raw(0, &headers, b"\0").await;
    }
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    // The first one has a type, but an unknown one: it is skipped.
    assert_eq!(drain_parking(&mut consumer, 3).await, [0, 0, 2, 1]);
}

#[tokio::test]
async fn corrected_message_differs_from_the_unreadable_one() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    let good = event(order, 1);
    let (id, subject) = (good.id.to_string(), order.to_string());
    let headers = [
        (header::TYPE, "fulfilment.shipped"),
        (header::ID, &*id),
        (header::SUBJECT, &*subject),
    ];
    harness.topic.publish_raw(0, &headers, &good.payload).await;
    harness.topic.publish_to(0, &good).await;
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain_parking(&mut consumer, 2).await, [0, 0, 2, 0]);
    let operator = Operator::of(&consumer, &harness.pool).await;
    let unreadable = operator.first_id().await;
    assert_eq!(operator.discard(unreadable).await, (true, [1, 0, 0]));
    assert_eq!(harness.effects(order).await, [1]);
}
