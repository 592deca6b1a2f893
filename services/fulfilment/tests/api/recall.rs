//! A restored database gets its decisions back from the topic, before the service decides anything.

use clap::Parser as _;
use events::{FulfilmentRejected, FulfilmentShipped};
use fulfilment::config::{Command, Program};
use fulfilment::recall::{Recalled, recall};
use serde_json::Value;
use testkit::test_topic::sealed;
use uuid::Uuid;

use crate::harness::{Harness, eventually};

const TWO: [(&str, u32); 1] = [("SKU-1", 2)];
const FIVE: [(&str, i64); 1] = [("SKU-1", 5)];

/// Everything that a decision has, apart from its times.
type Row = (Uuid, i32, String, Option<String>, Value);

async fn decisions(harness: &Harness) -> Vec<Row> {
    let query = "select order_id, attempt, status, reason, lines from shipments order by order_id";
    let rows = sqlx::query_as(query).fetch_all(&harness.pool);
    rows.await.unwrap()
}

async fn recall_on(harness: &Harness) -> anyhow::Result<Recalled> {
    let flags = [
        ["fulfilment", "recall"],
        ["--database-url", &harness.url],
        ["--kafka-brokers", &harness.topic.brokers],
        ["--kafka-topic", &harness.topic.name],
    ];
    match Program::parse_from(flags.as_flattened()).command {
        Command::Recall(settings) => recall(&settings).await,
        _ => unreachable!("the flags say recall"),
    }
}

async fn published(harness: &Harness) {
    eventually("all events are published", async || {
        let unpublished = "select count(*) from outbox where published_at is null";
        harness.count(unpublished).await == 0
    })
    .await;
}

/// As after the restore of a backup that was made before the first order.
async fn lose_everything(harness: &Harness) {
    harness
        .execute(
            "truncate shipments, processed_messages, outbox, outbox_positions;
             update stock set available = available + reserved, reserved = 0",
        )
        .await;
}

async fn publish_shipped(harness: &Harness, order_id: Uuid) {
    let (v, attempt) = (1, 1);
    let event = FulfilmentShipped {
        v,
        order_id,
        attempt,
    };
    let event = sealed("fulfilment", &event);
    harness.topic.publish(&event).await;
}

#[tokio::test]
async fn lost_decisions_are_read_back_from_the_topic() {
    let harness = Harness::create(&FIVE).await;
    let orders: Vec<Uuid> = (0..4).map(|_| Uuid::new_v4()).collect();
    let running = harness.start(&harness.group).await;
    // One after the other: the first two ship, the third is out of stock, the last is cancelled twice.
    for (number, order) in (1..).zip(&orders[..3]) {
        harness.topic.captured(*order, &TWO).await;
        harness.processed(number).await;
    }
    harness.topic.cancel_requested(orders[3]).await;
    harness.topic.captured_by(orders[3], 2, &TWO).await;
    harness.processed(5).await;
    published(&harness).await;
    running.stop().await;
    let before = decisions(&harness).await;
    assert_eq!(harness.stock("SKU-1").await, (1, 4));

    lose_everything(&harness).await;
    let recalled = recall_on(&harness).await.unwrap();
    assert_eq!((recalled.read, recalled.adopted), (5, 4), "{recalled:?}");
    assert_eq!(recalled.later_attempts, 1);
    let clean = |recalled: &Recalled| {
        recalled.contradictions.is_empty()
            && recalled.short.is_empty()
            && recalled.without_lines.is_empty()
    };
    assert!(clean(&recalled), "{recalled:?}");
    // A cancelled order has the lines of no payment, before as after.
    assert_eq!(decisions(&harness).await, before);
    assert_eq!(harness.stock("SKU-1").await, (1, 4));
    assert_eq!(harness.events("fulfilment.shipped").await, 2);
    assert_eq!(harness.events("fulfilment.rejected").await, 3);

    // A repeat adds nothing, even if the outbox was published again in between.
    let running = harness.start(&harness.group).await;
    published(&harness).await;
    running.stop().await;
    let again = recall_on(&harness).await.unwrap();
    assert_eq!(
        (again.read, again.adopted, again.later_attempts),
        (10, 0, 0)
    );
    assert_eq!(harness.events("fulfilment.shipped").await, 2);

    // Reading every event again, in any order, decides nothing new.
    let other = format!("fulfilment-{}", Uuid::new_v4());
    let running = harness.start(&other).await;
    harness.processed(5).await;
    running.stop().await;
    assert_eq!(decisions(&harness).await, before);
    assert_eq!(harness.stock("SKU-1").await, (1, 4));
    assert_eq!(harness.count("select count(*) from outbox").await, 5);
}

#[tokio::test]
async fn recall_does_not_run_beside_the_service() {
    let harness = Harness::create(&FIVE).await;
    let order = Uuid::new_v4();
    harness.topic.captured(order, &TWO).await;
    let running = harness.start(&harness.group).await;
    harness.decided(1).await;
    let error = recall_on(&harness).await.unwrap_err().to_string();
    assert!(error.contains("stop every replica first"), "{error}");
    running.stop().await;
    eventually("the sessions are closed", async || {
        recall_on(&harness).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn shipped_units_beyond_the_stock_are_reported() {
    let harness = Harness::create(&[("SKU-1", 1)]).await;
    let order = Uuid::new_v4();
    let lines = [("SKU-1", 2), ("SKU-new", 3)];
    harness.topic.captured(order, &lines).await;
    publish_shipped(&harness, order).await;
    let recalled = recall_on(&harness).await.unwrap();
    let short: Vec<(&str, i64)> = recalled.short.iter().map(|(k, v)| (&**k, *v)).collect();
    assert_eq!(short, [("SKU-1", 1), ("SKU-new", 3)]);
    assert!(recalled.to_string().contains("SKU-new: 3 more units"));
    assert_eq!(harness.stock("SKU-1").await, (0, 2));
    assert_eq!(harness.stock("SKU-new").await, (0, 3));
}

/// After the broker lost its data, the services publish again, each for itself.
#[tokio::test]
async fn decision_before_its_payment_gets_its_lines_later() {
    let harness = Harness::create(&FIVE).await;
    let order = Uuid::new_v4();
    publish_shipped(&harness, order).await;
    let recalled = recall_on(&harness).await.unwrap();
    assert_eq!(recalled.without_lines, [order]);
    assert_eq!(harness.stock("SKU-1").await, (5, 0));
    harness.topic.captured(order, &TWO).await;
    for _ in 0..2 {
        let recalled = recall_on(&harness).await.unwrap();
        assert!(recalled.without_lines.is_empty());
        assert_eq!(harness.stock("SKU-1").await, (3, 2));
    }
}

#[tokio::test]
async fn contradicting_decision_is_reported_and_changes_nothing() {
    let harness = Harness::create(&FIVE).await;
    let order = Uuid::new_v4();
    harness.topic.captured(order, &TWO).await;
    publish_shipped(&harness, order).await;
    recall_on(&harness).await.unwrap();
    let before = decisions(&harness).await;
    let event = FulfilmentRejected {
        v: 1,
        order_id: order,
        attempt: 1,
        reason: "out_of_stock".to_owned(),
    };
    let event = sealed("fulfilment", &event);
    harness.topic.publish(&event).await;
    let recalled = recall_on(&harness).await.unwrap();
    assert_eq!(recalled.contradictions.iter().collect::<Vec<_>>(), [&order]);
    assert_eq!(decisions(&harness).await, before);
    assert_eq!(harness.stock("SKU-1").await, (3, 2));
}

/// Another service cannot make this one believe that it has shipped.
#[tokio::test]
async fn decision_of_another_source_is_ignored() {
    let harness = Harness::create(&FIVE).await;
    let (v, order_id, attempt) = (1, Uuid::new_v4(), 1);
    let event = FulfilmentShipped {
        v,
        order_id,
        attempt,
    };
    let event = sealed("payment", &event);
    harness.topic.publish(&event).await;
    let recalled = recall_on(&harness).await.unwrap();
    assert_eq!(recalled, Recalled::default());
}

/// What `pg_restore --clean` does to the table: the same rows in a new table.
const RESTORE: &str = "
    alter table shipments rename to backed_up;
    create table shipments (like backed_up including all);
    insert into shipments select * from backed_up;
    drop table backed_up";

/// The service is started before the recall: it holds its messages and decides nothing.
#[tokio::test]
async fn restored_tables_decide_nothing_before_the_recall() {
    // Only this test of the binary reads metrics, so only it sets them up.
    telemetry::metric::init().unwrap();
    let harness = Harness::create(&FIVE).await;
    harness.execute(RESTORE).await;
    let (shipped, paid) = (Uuid::new_v4(), Uuid::new_v4());
    // Without its decision, the service would reject what it has shipped.
    harness.topic.cancel_requested(shipped).await;
    for order in [shipped, paid] {
        harness.topic.captured(order, &TWO).await;
    }
    publish_shipped(&harness, shipped).await;
    let running = harness.start(&harness.group).await;
    eventually("the batch was tried and not processed", async || {
        let metrics = format!("http://127.0.0.1:{}/metrics", running.port);
        let metrics = reqwest::get(metrics).await.unwrap().text().await.unwrap();
        let tried = metrics
            .lines()
            .find_map(|line| line.strip_prefix("inbox_retries_total "));
        tried.is_some_and(|tried| tried != "0")
    })
    .await;
    running.stop().await;
    for table in [
        "select count(*) from shipments",
        "select count(*) from parked_messages",
    ] {
        assert_eq!(harness.count(table).await, 0, "{table}");
    }

    eventually("the sessions are closed", async || {
        let sessions = "select count(*) from pg_stat_activity
             where datname = current_database() and application_name = 'fulfilment'";
        harness.count(sessions).await == 0
    })
    .await;
    let recalled = recall_on(&harness).await.unwrap();
    assert_eq!(recalled.adopted, 1);
    let running = harness.start(&harness.group).await;
    harness.decided(2).await;
    running.stop().await;
    assert_eq!(harness.shipments("shipped").await, 2);
}
