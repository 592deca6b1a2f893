//! The order service's part of an order's timeline comes from its tables, with the transactions that wrote them.

use events::{EventType, event_ids};
use operators::{PartQuery, ReadPart as _};
use order::timeline::Reader;
use sqlx::{PgConnection, PgPool};
use steps::{Part, Severity, Step};
use uuid::Uuid;

use crate::harness::{Harness, order_with};

const GROUP: &str = "order";

async fn part(pool: &PgPool, order_id: Uuid) -> Part {
    read(&mut pool.acquire().await.unwrap(), order_id).await
}

pub(crate) async fn read(connection: &mut PgConnection, order_id: Uuid) -> Part {
    let reader = Reader {
        group: GROUP.to_owned(),
        key_window_seconds: 86_400,
    };
    let query = PartQuery {
        order_id,
        keys: Vec::new(),
    };
    let part = reader.read(connection, &query).await.unwrap();
    part.finish()
}

fn step<'a>(part: &'a Part, what: &str) -> &'a Step {
    let found = part.steps.iter().find(|step| step.what == what);
    found.unwrap_or_else(|| panic!("no {what}: {part:#?}"))
}

#[tokio::test]
async fn placed_order_shows_one_commit_for_key_and_order() {
    let harness = Harness::start().await;
    let body = order_with("reference", "cart-1".to_owned());
    let id = harness.post("key-1", &body).await.expect(201).order_id();
    // Another request of the same time must not be mistaken for it.
    harness.post("key-2", &crate::harness::order()).await;
    let part = part(&harness.pool, id).await;
    assert_eq!(part.status.as_deref(), Some("placed"));
    assert_eq!(part.reference.as_deref(), Some("cart-1"));
    assert_eq!(part.key.as_deref(), Some("key-1"));
    assert_eq!(part.fingerprint.as_ref().map(String::len), Some(64));
    let placed = step(&part, "order placed");
    let key = step(&part, "key stored with its response to POST /orders");
    assert!(placed.commit.is_some());
    assert_eq!(placed.commit, key.commit);
    assert_eq!(key.facts["response"], "201");
    let event = step(&part, "event order.placed stored").event.as_ref();
    let event = event.unwrap();
    let expected = event_ids(id, 1).find(|(kind, _)| *kind == EventType::OrderPlaced);
    assert_eq!(Some(event.id), expected.map(|(_, id)| id));
    assert_eq!(event.published_at, None);
}

#[tokio::test]
async fn order_that_is_paid_again_shows_both_keys() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let paid = harness.pay("again-1", id, "pm_card_ok").await;
    paid.expect(201);
    let part = part(&harness.pool, id).await;
    let again = "key stored with its response to POST /orders/{id}/payments";
    assert_eq!(step(&part, again).facts["key"], "again-1");
    assert_ne!(part.key.as_deref(), Some("again-1"));
    let requested = step(&part, "event order.payment_requested stored");
    assert!(step(&part, again).at <= requested.at);
    // The last change of the row is the new attempt.
    let current = step(&part, "order is placed");
    assert_eq!(current.commit, step(&part, again).commit);
    assert_eq!(current.facts["attempt"], "2");
}

#[tokio::test]
async fn processed_and_parked_messages_are_shown() {
    let harness = Harness::start().await;
    let id = harness.order_in("placed").await;
    let ids = event_ids(id, 1);
    let (_, captured) = ids
        .into_iter()
        .find(|(kind, _)| *kind == EventType::PaymentCaptured)
        .unwrap();
    for sql in [
        "insert into processed_messages (consumer_group, message_id) values ('order', $1)",
        "insert into parked_orders (consumer_group, subject) values ('order', $2)",
        "insert into parked_messages (consumer_group, subject, identity, message_id, event_type,
             header_names, header_values, kafka_partition, kafka_offset, failed, cause, tries)
         values ('order', $2, $1, $1, 'payment.captured', '{}', '{}', 0, 7, true, 'no', 5)",
    ] {
        // Each statement names both parameters for the types.
        let sql = format!("with given as (select $1::uuid, $2::uuid) {sql}");
        sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(captured)
            .bind(id)
            .execute(&harness.pool)
            .await
            .unwrap();
    }
    let part = part(&harness.pool, id).await;
    let processed = step(&part, "payment.captured processed");
    assert!(processed.commit.is_some());
    assert_eq!(processed.facts["attempt"], "1");
    let parked = step(&part, "payment.captured parked: it failed");
    assert_eq!(parked.severity, Severity::Fault);
    assert_eq!(parked.facts["cause"], "no");
}

#[tokio::test]
async fn unknown_order_has_no_steps() {
    let harness = Harness::start().await;
    let part = part(&harness.pool, Uuid::new_v4()).await;
    assert!(part.steps.is_empty() && part.status.is_none(), "{part:#?}");
}
