use uuid::Uuid;

use crate::harness::{Harness, eventually};

/// Counts the tries in a sequence, which no rollback takes back, and refuses every event.
const BREAK_OUTBOX: &str = "
    create sequence tries;
    create function refuse() returns trigger language plpgsql as $$
    begin
        perform nextval('tries');
        raise exception 'the outbox is broken';
    end $$;
    create trigger refuse before insert on outbox for each row execute function refuse();";

#[tokio::test]
async fn without_its_event_a_shipment_leaves_neither_stock_nor_status_nor_ledger_behind() {
    let harness = Harness::create(&[("SKU-1", 10)]).await;
    harness.execute(BREAK_OUTBOX).await;
    harness
        .topic
        .captured(Uuid::new_v4(), &[("SKU-1", 2)])
        .await;
    let running = harness.start(&harness.group).await;
    eventually("it has tried again and again", async || {
        harness.count("select last_value from tries").await >= 3
    })
    .await;
    assert_eq!(harness.stock("SKU-1").await, (10, 0));
    assert_eq!(harness.count("select count(*) from shipments").await, 0);
    let ledger = "select count(*) from processed_messages";
    assert_eq!(harness.count(ledger).await, 0);

    harness.execute("drop trigger refuse on outbox").await;
    harness.decided(1).await;
    assert_eq!(harness.stock("SKU-1").await, (8, 2));
    assert_eq!(harness.events("fulfilment.shipped").await, 1);
    assert_eq!(harness.count(ledger).await, 1);
    running.stop().await;
}
