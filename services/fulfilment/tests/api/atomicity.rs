//! A shipment commits together with its stock, its event and its processed message, or not at all.

use uuid::Uuid;

use crate::harness::{Harness, eventually};

/// Fails every insert into the outbox. A sequence counts the tries, because a rollback does not
/// reset it.
const BREAK_OUTBOX: &str = "
    create sequence tries;
    create function fail() returns trigger language plpgsql as $$
    begin
        perform nextval('tries');
        raise exception 'the outbox is broken';
    end $$;
    create trigger fail before insert on outbox for each row execute function fail();";

#[tokio::test]
async fn failed_event_rolls_back_stock_shipment_and_message() {
    let harness = Harness::create(&[("SKU-1", 10)]).await;
    harness.execute(BREAK_OUTBOX).await;
    harness
        .topic
        .captured(Uuid::new_v4(), &[("SKU-1", 2)])
        .await;
    let running = harness.start(&harness.group).await;
    eventually("the consumer has tried three times", async || {
        harness.count("select last_value from tries").await >= 3
    })
    .await;
    assert_eq!(harness.stock("SKU-1").await, (10, 0));
    assert_eq!(harness.count("select count(*) from shipments").await, 0);
    let processed = "select count(*) from processed_messages";
    assert_eq!(harness.count(processed).await, 0);

    harness.execute("drop trigger fail on outbox").await;
    harness.decided(1).await;
    assert_eq!(harness.stock("SKU-1").await, (8, 2));
    assert_eq!(harness.events("fulfilment.shipped").await, 1);
    assert_eq!(harness.count(processed).await, 1);
    running.stop().await;
}
