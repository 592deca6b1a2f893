//! Fulfilment's part of an order's timeline: the message, the shipment and the stock of one commit.

use fulfilment::timeline::Reader;
use operators::{PartQuery, read_part};
use uuid::Uuid;

use crate::harness::Harness;

#[tokio::test]
async fn shipment_and_its_message_are_one_commit() {
    let harness = Harness::create(&[("SKU-1", 10)]).await;
    let order_id = Uuid::new_v4();
    harness.topic.captured(order_id, &[("SKU-1", 2)]).await;
    let running = harness.start(&harness.group).await;
    harness.decided(1).await;
    running.stop().await;

    let reader = Reader {
        group: harness.group.clone(),
    };
    let query = PartQuery {
        order_id,
        keys: Vec::new(),
    };
    let part = read_part(&harness.pool, &reader, &query).await.unwrap();
    let step = |what: &str| {
        let found = part.steps.iter().find(|step| step.what == what);
        found.unwrap_or_else(|| panic!("no {what}: {part:#?}"))
    };
    let shipped = step("shipment is shipped");
    let processed = step("payment.captured processed");
    assert!(shipped.commit.is_some());
    assert_eq!(shipped.commit, processed.commit);
    assert_eq!(shipped.facts["lines"], "2 × SKU-1");
    assert_eq!(
        shipped.facts["stock of SKU-1 now"],
        "8 available, 2 reserved"
    );
    assert!(step("event fulfilment.shipped stored").event.is_some());
    assert_eq!(part.status.as_deref(), Some("shipped"));
}
