//! How far a run of the reconciler reads, and where it stops.

use std::time::Duration;

use payment::reconciler::{Reconciler, Trigger};
use serde_json::json;
use uuid::Uuid;

use crate::harness::Harness;
use crate::reconciling::{
    charge, kinds, mount_agreeing_ledger, mount_ledger, pair, reconcile, reconciler,
};
use crate::rejections::reject;

#[tokio::test]
async fn run_stops_at_its_limit_of_refunds_and_continues_next_time() {
    let harness = Harness::create().await;
    let mut charges = Vec::new();
    for _ in 0..5 {
        let order = harness.open_new().await;
        reject(&harness, order, 1).await;
        charges.push(charge(Uuid::now_v7(), order, format!("pay:{order}:1")));
    }
    mount_ledger(&harness, charges).await;
    let careful = Reconciler {
        refunds_max: 3,
        ..reconciler(&harness, Duration::ZERO)
    };
    let first = careful.reconcile(&Trigger::Schedule).await.unwrap();
    assert_eq!((first.pages, first.refunds_opened), (2, 3));
    assert_eq!(first.stopped.as_deref(), Some("refund_limit"));
    let second = careful.reconcile(&Trigger::Schedule).await.unwrap();
    assert_eq!((second.refunds_opened, second.stopped), (2, None));
}

#[tokio::test]
async fn entry_that_cannot_be_compared_does_not_stop_the_run() {
    let harness = Harness::create().await;
    let mut charges = Vec::new();
    for _ in 0..3 {
        let order = harness.open_new().await;
        charges.push(charge(Uuid::now_v7(), order, format!("pay:{order}:1")));
    }
    charges[0]["status"] = json!("a new status");
    // Postgres cannot store this text.
    charges[1]["currency"] = json!("US\u{0}");
    charges[1]["idempotency_key"] = json!("by-hand");
    mount_ledger(&harness, charges).await;
    let report = reconcile(&harness).await;
    assert_eq!(report.settled, 1);
    let expected = [
        pair("not_comparable", "flagged"),
        pair("not_comparable", "flagged"),
        pair("outcome_unknown", "settled"),
    ];
    assert_eq!(kinds(&report), expected);
    assert!(report.finished_at.is_some());
}

#[tokio::test]
async fn scheduled_run_reads_only_what_is_new() {
    let harness = Harness::create().await;
    mount_agreeing_ledger(&harness, 5).await;
    let scheduled = reconciler(&harness, Duration::ZERO);
    let first = scheduled.reconcile(&Trigger::Schedule).await.unwrap();
    assert_eq!((first.pages, first.charges), (3, 5));
    let second = scheduled.reconcile(&Trigger::Schedule).await.unwrap();
    assert_eq!((second.pages, second.charges), (1, 0));

    // A full walk that is due compares the old charges again, after what is new.
    let walking = Reconciler {
        walk_interval: Duration::ZERO,
        ..scheduled
    };
    let walk = walking.reconcile(&Trigger::Schedule).await.unwrap();
    assert_eq!((walk.pages, walk.charges), (4, 5));
}
