//! Operators settle what only an operator can know: once, audited, within the state machine.

use operators::Operator;
use payment::resolution::{
    AttemptOutcome, ChargeDecision, Error, RefundOutcome, decide_charge, resolve_attempt,
    resolve_refund,
};
use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::Harness;
use crate::provider::{
    error, mount_captures, mount_charge_response, mount_first_refund_responses,
    mount_refund_look_up, mount_refunds,
};
use crate::reconciling::{all, charge, mount_ledger, reconciler};
use crate::rejections::reject;

fn operator() -> Operator {
    Operator::new("ada", "the provider confirmed it by phone")
}

fn captured(charge_id: &str) -> AttemptOutcome {
    AttemptOutcome::Captured {
        charge_id: charge_id.to_owned(),
    }
}

async fn audited(harness: &Harness) -> Vec<(String, String, String)> {
    sqlx::query_as("select operator, action, reason from audit_log order by id")
        .fetch_all(&harness.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn attempt_is_resolved_once_and_audited() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, ResponseTemplate::new(503)).await;
    for (outcome, event) in [
        (captured("ch_1"), "payment.captured"),
        (AttemptOutcome::NotCharged, "payment.failed"),
    ] {
        let order = harness.open_new().await;
        assert_eq!(harness.step().await, 0);
        let resolve = async |outcome: &AttemptOutcome| {
            let mut connection = harness.pool.acquire().await.unwrap();
            resolve_attempt(&mut connection, &operator(), (order, 1), outcome).await
        };
        assert!(resolve(&outcome).await.unwrap().changed);
        assert!(!resolve(&outcome).await.unwrap().changed, "repeated");
        let other = resolve(&captured("ch_2")).await;
        assert!(matches!(other, Err(Error::Settled(_))), "{other:?}");
        assert_eq!(harness.event_types(order).await, [event]);
        assert_eq!(harness.step().await, 0, "not tried again");
    }
    let row = |action: &str| {
        let reason = operator().reason().to_owned();
        ("ada".to_owned(), action.to_owned(), reason)
    };
    assert_eq!(audited(&harness).await, vec![row("attempts.resolve"); 2]);
}

#[tokio::test]
async fn failed_refund_is_resolved_by_an_operator() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    mount_refund_look_up(&harness.psp, json!([])).await;
    let disputed = error(422, "charge_disputed");
    mount_first_refund_responses(&harness.psp, 9, disputed).await;
    let order = harness.open_new().await;
    harness.step().await;
    reject(&harness, order, 1).await;
    harness.step().await;
    let charge_id = format!("ch_{order}");
    let refunded = RefundOutcome::Refunded {
        refund_id: "re_by_hand".to_owned(),
    };
    let mut connection = harness.pool.acquire().await.unwrap();
    for changed in [true, false] {
        let resolved = resolve_refund(&mut connection, &operator(), &charge_id, &refunded).await;
        assert_eq!(resolved.unwrap().changed, changed);
    }
    let not = RefundOutcome::NotRefunded;
    let not = resolve_refund(&mut connection, &operator(), &charge_id, &not).await;
    assert!(matches!(not, Err(Error::Settled(_))), "{not:?}");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(harness.event_types(order).await, expected);
    assert_eq!(audited(&harness).await.len(), 1);
}

#[tokio::test]
async fn only_an_operator_refunds_an_unexplained_charge() {
    let harness = Harness::create().await;
    mount_refunds(&harness.psp).await;
    let (stranger, id) = (Uuid::new_v4(), Uuid::now_v7());
    mount_ledger(&harness, vec![charge(id, stranger, "by-hand".to_owned())]).await;
    let reconciler = reconciler(&harness, std::time::Duration::ZERO);
    reconciler.reconcile(&all()).await.unwrap();
    let mut connection = harness.pool.acquire().await.unwrap();
    let id = id.to_string();
    let mut decide = async |decision, dry_run| {
        decide_charge(&mut connection, &operator(), &id, decision, dry_run).await
    };
    let dry = decide(ChargeDecision::Refund, true).await.unwrap();
    assert_eq!((&*dry.status, dry.changed), ("would be refunded", false));
    let refunds = "select count(*) from refunds";
    assert_eq!(harness.count(refunds).await, 0, "a dry run changes nothing");
    for changed in [true, false] {
        let decided = decide(ChargeDecision::Refund, false).await.unwrap();
        assert_eq!(decided.changed, changed);
    }
    let other = decide(ChargeDecision::Accept, false).await;
    assert!(matches!(other, Err(Error::Settled(_))), "{other:?}");
    assert_eq!(harness.step().await, 1);
    let refunded = "select count(*) from refunds where status = 'refunded'";
    assert_eq!(harness.count(refunded).await, 1);
    let rows = audited(&harness).await;
    let decided = rows
        .iter()
        .filter(|row| row.1 == "unexplained_charges.decide");
    assert_eq!(decided.count(), 1);
    let report = reconciler.reconcile(&all()).await.unwrap();
    assert_eq!(report.refunds_opened, 0);
}

#[tokio::test]
async fn books_contradict_a_wrong_resolution() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, ResponseTemplate::new(503)).await;
    let order = harness.open_new().await;
    harness.step().await;
    let mut connection = harness.pool.acquire().await.unwrap();
    let wrong = AttemptOutcome::NotCharged;
    let resolved = resolve_attempt(&mut connection, &operator(), (order, 1), &wrong).await;
    resolved.unwrap();
    let id = Uuid::now_v7();
    mount_ledger(&harness, vec![charge(id, order, format!("pay:{order}:1"))]).await;
    let reconciler = reconciler(&harness, std::time::Duration::ZERO);
    let report = reconciler.reconcile(&all()).await.unwrap();
    assert_eq!(
        report.refunds_opened, 1,
        "no order has the money: it goes back"
    );
    assert_eq!(report.differences[0]["kind"], "orphan_charge");
}
