use events::header;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, drain_parking, event};
use crate::operator::Operator;

#[tokio::test]
async fn a_wanted_message_that_cannot_be_read_is_parked_alone_and_the_others_flow_on() {
    steps_around(&[(header::TYPE, "fulfilment.shipped")]).await;
}

#[tokio::test]
async fn a_message_that_does_not_say_what_it_is_might_be_wanted_and_is_parked() {
    steps_around(&[]).await;
}

async fn steps_around(headers: &[(&str, &str)]) {
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

    let operator = Operator::of(&consumer).await;
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

    // It does not become readable by itself; an operator can only look, and let it go.
    assert_eq!(operator.redrive(id).await, [0, 0, 1]);
    assert_eq!(operator.inspect(id).await["tries"], 1);
    assert_eq!(operator.discard(id).await, (true, [0, 0, 0]));
    assert_eq!(harness.parked_count().await, 0);
}

#[tokio::test]
async fn one_that_names_its_order_holds_that_order_up_and_no_other() {
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

    let operator = Operator::of(&consumer).await;
    let culprits: Vec<_> = operator
        .list()
        .await
        .iter()
        .map(|it| it["culprit"].clone())
        .collect();
    assert_eq!(culprits, [true, false]);
    let id = operator.first_id().await;
    assert_eq!(operator.inspect(id).await["payload"], "\\xfffe00");
    assert_eq!(operator.discard(id).await, (true, [1, 0, 0]));
    assert_eq!(harness.effects(order).await, [1, 2]);
}

#[tokio::test]
async fn nothing_that_a_header_can_hold_keeps_a_message_from_being_parked() {
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
    // The first says what it is: nothing that anybody knows.
    assert_eq!(drain_parking(&mut consumer, 3).await, [0, 0, 2, 1]);
}

#[tokio::test]
async fn the_corrected_message_is_not_taken_for_the_unreadable_one_with_its_id() {
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
    let operator = Operator::of(&consumer).await;
    let culprit = operator.first_id().await;
    assert_eq!(operator.discard(culprit).await, (true, [1, 0, 0]));
    assert_eq!(harness.effects(order).await, [1]);
}
