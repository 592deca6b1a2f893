//! The reconciler compares the provider's books with our tables, both ways.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use operators::Operator;
use payment::charger::ChargerQueues;
use payment::psp;
use payment::reconciler::{Error, PAGE_WAIT_MAX, Reconciler, Trigger};
use payment::store::reconciliations::Report;
use payment::waiting::Waiting;
use serde_json::{Value, json};
use testkit::fault_proxy::FaultProxy;
use uuid::Uuid;
use wiremock::matchers::{method, path};
use wiremock::{Mock, Request, ResponseTemplate};

use crate::harness::{Harness, LONG, eventually};
use crate::provider::{call_count, mount_captures, mount_refunds, request_bodies};
use crate::rejections::reject;

/// An operator's reconciliation of all charges.
pub(crate) fn all() -> Trigger {
    by_operator(true)
}

pub(crate) fn by_operator(all: bool) -> Trigger {
    let operator = Operator::new("ann", "provider outage");
    Trigger::Operator { all, operator }
}

pub(crate) fn reconciler(harness: &Harness, grace: Duration) -> Reconciler {
    Reconciler {
        pool: harness.pool.clone(),
        provider: Arc::new(psp::Client::new(&harness.psp.uri(), Duration::from_secs(5)).unwrap()),
        interval: Duration::ZERO,
        grace,
        refunds_max: 100,
        walk_interval: Duration::from_secs(3_600),
        lookback: Duration::from_secs(3_600),
        page_wait_max: PAGE_WAIT_MAX,
        wake: outbox::Wake::default(),
        queues: Arc::new(ChargerQueues::new(LONG)),
        waiting: Waiting::default(),
    }
}

pub(crate) async fn reconcile(harness: &Harness) -> Report {
    let reconciled = reconciler(harness, Duration::ZERO).reconcile(&all()).await;
    reconciled.unwrap()
}

pub(crate) fn charge(id: Uuid, order: Uuid, key: String) -> Value {
    json!({
        "id": id, "status": "captured", "reference": order, "amount": 5_000, "currency": "USD",
        "payment_method": "pm_card_ok", "idempotency_key": key, "created_at": Utc::now(),
        "refunds": [],
    })
}

/// The provider's ledger has these charges, two per page.
pub(crate) async fn mount_ledger(harness: &Harness, mut charges: Vec<Value>) {
    charges.sort_by_key(|charge| charge["id"].as_str().unwrap().to_owned());
    let page = move |request: &Request| {
        let mut query = request.url.query_pairs();
        let after = query.find(|(name, _)| name == "after").unwrap().1;
        let is_after = |charge: &&Value| charge["id"].as_str().unwrap() > &*after;
        let rest: Vec<&Value> = charges.iter().filter(is_after).collect();
        let next = (rest.len() > 2).then(|| rest[1]["id"].clone());
        let data = &rest[..rest.len().min(2)];
        ResponseTemplate::new(200).set_body_json(json!({ "data": data, "next": next }))
    };
    let ledger = Mock::given(method("GET")).and(path("/v1/ledger"));
    ledger.respond_with(page).mount(&harness.psp).await;
}

pub(crate) fn kinds(report: &Report) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let differences = report.differences.as_array().unwrap().iter();
    let mut kinds: Vec<_> = differences
        .map(|it| (text(&it["kind"]), text(&it["action"])))
        .collect();
    kinds.sort();
    kinds
}

pub(crate) fn pair(kind: &str, action: &str) -> (String, String) {
    (kind.to_owned(), action.to_owned())
}

/// The provider's ledger has this many charges, and each is the charge of a captured attempt.
pub(crate) async fn mount_agreeing_ledger(harness: &Harness, count: usize) {
    let mut charges = Vec::new();
    for _ in 0..count {
        let (order, id) = (harness.open_new().await, Uuid::now_v7());
        charges.push(charge(id, order, format!("pay:{order}:1")));
        settle(harness, order, &id.to_string()).await;
    }
    mount_ledger(harness, charges).await;
}

#[tokio::test]
async fn agreeing_books_change_nothing_over_all_pages() {
    let harness = Harness::create().await;
    mount_agreeing_ledger(&harness, 5).await;
    let report = reconcile(&harness).await;
    assert_eq!((report.pages, report.charges, report.attempts), (3, 5, 5));
    assert_eq!((report.differing, report.settled), (0, 0));
    assert!(report.finished_at.is_some());
}

/// Makes the attempt captured, with this charge.
async fn settle(harness: &Harness, order: Uuid, charge_id: &str) {
    sqlx::query("update payments set status = 'captured', charge_id = $2 where order_id = $1")
        .bind(order)
        .bind(charge_id)
        .execute(&harness.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn charge_settles_its_open_attempt_once() {
    let harness = Harness::create().await;
    let (order, id) = (harness.open_new().await, Uuid::now_v7());
    mount_ledger(&harness, vec![charge(id, order, format!("pay:{order}:1"))]).await;
    let report = reconcile(&harness).await;
    assert_eq!(report.settled, 1);
    assert_eq!(kinds(&report), [pair("outcome_unknown", "settled")]);
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.status, "captured");
    assert_eq!(payment.charge_id, Some(id.to_string()));
    assert_eq!(harness.events(order).await.len(), 1);

    let again = reconcile(&harness).await;
    assert_eq!((again.settled, again.differing), (0, 0));
    assert_eq!(harness.events(order).await.len(), 1);
}

#[tokio::test]
async fn charger_answer_after_reconciliation_changes_nothing() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    let late = harness.stepper(LONG).call().await;
    let id = Uuid::now_v7();
    mount_ledger(&harness, vec![charge(id, order, format!("pay:{order}:1"))]).await;
    assert_eq!(reconcile(&harness).await.settled, 1);
    assert_eq!(harness.record(&late).await.unwrap(), 0);
    assert_eq!(harness.events(order).await.len(), 1);
}

#[tokio::test]
async fn charged_attempt_of_a_rejected_order_is_refunded() {
    let harness = Harness::create().await;
    mount_refunds(&harness.psp).await;
    let order = harness.open_new().await;
    // Sent once without an answer, because nothing is mounted. Then fulfilment rejects the order.
    let unknown = harness.stepper(LONG).call().await;
    harness.record(&unknown).await.unwrap();
    reject(&harness, order, 1).await;
    let id = Uuid::now_v7();
    mount_ledger(&harness, vec![charge(id, order, format!("pay:{order}:1"))]).await;
    let report = reconcile(&harness).await;
    assert_eq!((report.settled, report.refunds_opened), (1, 1));
    let answers = harness.stepper(LONG).call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    assert_eq!(
        harness.events(order).await.len(),
        2,
        "captured and refunded"
    );
}

#[tokio::test]
async fn contradicting_charges_are_refunded_once_each() {
    let harness = Harness::create().await;
    mount_refunds(&harness.psp).await;
    let ids = [(); 3].map(|()| Uuid::now_v7());
    let (captured, voided) = (harness.open_new().await, harness.open_new().await);
    settle(&harness, captured, &ids[0].to_string()).await;
    reject(&harness, voided, 1).await;
    mount_ledger(
        &harness,
        vec![
            charge(ids[0], captured, format!("pay:{captured}:1")),
            // The provider forgot the key and charged twice.
            charge(ids[1], captured, format!("pay:{captured}:1")),
            charge(ids[2], voided, format!("pay:{voided}:1")),
        ],
    )
    .await;
    let report = reconcile(&harness).await;
    assert_eq!(report.refunds_opened, 2);
    let orphan = pair("orphan_charge", "refund opened");
    assert_eq!(kinds(&report), vec![orphan; 2]);
    let answers = harness.stepper(LONG).call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 2);
    assert_eq!(
        request_bodies(&harness.psp, "POST", "/v1/refunds")
            .await
            .len(),
        2
    );

    assert_eq!(reconcile(&harness).await.refunds_opened, 0);
    assert_eq!(harness.payment(captured, 1).await.status, "captured");
    assert!(
        harness.events(captured).await.is_empty(),
        "the refund of an orphan changes no order"
    );
}

#[tokio::test]
async fn unexplained_charges_are_flagged_and_never_refunded() {
    let harness = Harness::create().await;
    let [ours, foreign] = [(); 2].map(|()| Uuid::new_v4());
    let mut old = charge(Uuid::now_v7(), ours, format!("pay:{ours}:1"));
    old["created_at"] = json!(Utc::now() - Duration::from_secs(30 * 86_400));
    let by_hand = charge(Uuid::now_v7(), foreign, "made-by-hand".to_owned());
    mount_ledger(&harness, vec![old, by_hand]).await;
    let flagged = pair("unexplained_charge", "flagged");
    for _ in 0..2 {
        let report = reconcile(&harness).await;
        assert_eq!(kinds(&report), vec![flagged.clone(); 2]);
        assert_eq!(report.refunds_opened, 0);
    }
    let seen = "select count(*) from unexplained_charges where status = 'open'";
    assert_eq!(
        harness.count(seen).await,
        2,
        "each once, since it was first seen"
    );

    // The order is heard again: its attempt explains the charge, and the charge settles it.
    harness.open(ours, 1).await;
    assert_eq!(reconcile(&harness).await.settled, 1);
    assert_eq!(harness.count(seen).await, 1);
}

#[tokio::test]
async fn unknown_attempt_refunded_by_hand_ends_as_refunded() {
    let harness = Harness::create().await;
    let (order, id) = (harness.open_new().await, Uuid::now_v7());
    let mut charge = charge(id, order, format!("pay:{order}:1"));
    charge["refunds"] = json!([{ "id": "re_1", "status": "refunded", "idempotency_key": "by-hand", "amount": 5_000 }]);
    mount_ledger(&harness, vec![charge]).await;
    assert_eq!(reconcile(&harness).await.settled, 1);
    let events = harness.events(order).await;
    let types: Vec<&str> = events.iter().map(|(kind, _)| &**kind).collect();
    assert_eq!(
        types,
        ["payment.refunded"],
        "never captured: it must not ship"
    );
    let refunded = "select count(*) from refunds where status = 'refunded' and refund_id = 're_1'";
    assert_eq!(harness.count(refunded).await, 1);
    assert_eq!(reconcile(&harness).await.differing, 0);
}

#[tokio::test]
async fn other_differences_are_flagged() {
    let harness = Harness::create().await;
    let ids = [(); 3].map(|()| Uuid::now_v7());
    let orders = [
        harness.open_new().await,
        harness.open_new().await,
        harness.open_new().await,
    ];
    for (order, id) in orders.iter().zip(ids) {
        settle(&harness, *order, &id.to_string()).await;
    }
    let mut amount = charge(ids[0], orders[0], format!("pay:{}:1", orders[0]));
    amount["amount"] = json!(4_999);
    let mut refunded = charge(ids[1], orders[1], format!("pay:{}:1", orders[1]));
    refunded["refunds"] = json!([{ "id": "re", "status": "refunded", "idempotency_key": "by-hand", "amount": 4_000 }]);
    // The third charge is missing.
    mount_ledger(&harness, vec![amount, refunded]).await;
    let report = reconcile(&harness).await;
    let expected = [
        pair("amount_mismatch", "flagged"),
        pair("charge_not_in_books", "flagged"),
        pair("refund_not_recorded", "flagged"),
    ];
    assert_eq!(kinds(&report), expected);
    assert_eq!(report.differing, 3);
    assert_eq!((report.settled, report.refunds_opened), (0, 0));
}

#[tokio::test]
async fn refund_in_the_books_is_settled() {
    let harness = Harness::create().await;
    let (order, id) = (harness.open_new().await, Uuid::now_v7());
    settle(&harness, order, &id.to_string()).await;
    reject(&harness, order, 1).await;
    let mut charge = charge(id, order, format!("pay:{order}:1"));
    let key = format!("refund:{order}:1");
    charge["refunds"] =
        json!([{ "id": "re_1", "status": "refunded", "idempotency_key": key, "amount": 5_000 }]);
    mount_ledger(&harness, vec![charge]).await;
    let report = reconcile(&harness).await;
    assert_eq!(report.refunds_settled, 1);
    let events = harness.events(order).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].0, "payment.refunded");
    assert_eq!(reconcile(&harness).await.differing, 0);
}

#[tokio::test]
async fn recent_charges_are_skipped() {
    let harness = Harness::create().await;
    let (order, id) = (harness.open_new().await, Uuid::now_v7());
    let stranger = Uuid::new_v4();
    let orphan = charge(Uuid::now_v7(), stranger, "by-hand".to_owned());
    let recent = charge(id, order, format!("pay:{order}:1"));
    mount_ledger(&harness, vec![recent, orphan]).await;
    let patient = reconciler(&harness, Duration::from_secs(60));
    let report = patient.reconcile(&all()).await.unwrap();
    assert_eq!((report.recent, report.settled), (2, 0));
    assert_eq!(report.differing, 0);
    assert_eq!(harness.payment(order, 1).await.status, "pending");
}

#[tokio::test]
async fn interrupted_reconciliation_is_repeated_by_the_next() {
    let harness = Harness::create().await;
    let mut charges = Vec::new();
    for _ in 0..3 {
        let order = harness.open_new().await;
        charges.push(charge(Uuid::now_v7(), order, format!("pay:{order}:1")));
    }
    // Reading the first page works, reading the second fails.
    let page = json!({ "data": [charges[0]], "next": charges[0]["id"] });
    let ledger = || Mock::given(method("GET")).and(path("/v1/ledger"));
    let first = ResponseTemplate::new(200).set_body_json(page);
    let first = ledger().respond_with(first).up_to_n_times(1);
    first.mount(&harness.psp).await;
    let down = ledger().respond_with(ResponseTemplate::new(503));
    down.up_to_n_times(1).mount(&harness.psp).await;
    let broken = reconciler(&harness, Duration::ZERO).reconcile(&all()).await;
    assert!(matches!(broken, Err(Error::Failed(_))), "{broken:?}");
    let captured = "select count(*) from payments where status = 'captured'";
    assert_eq!(
        harness.count(captured).await,
        1,
        "only the first page is applied"
    );

    mount_ledger(&harness, charges).await;
    let report = reconcile(&harness).await;
    assert_eq!(report.settled, 2);
    assert_eq!(harness.count(captured).await, 3);
    assert_eq!(harness.count("select count(*) from outbox").await, 3);
    let interrupted = "select count(*) from reconciliations where finished_at is null";
    assert_eq!(harness.count(interrupted).await, 1);
}

#[tokio::test]
async fn only_one_of_two_concurrent_reconciliations_runs() {
    let harness = Harness::create().await;
    mount_ledger(&harness, Vec::new()).await;
    let provider = FaultProxy::to(&harness.psp.uri()).await.unwrap();
    provider.hold();
    let url = provider.url.trim_end_matches('/');
    let slow = Reconciler {
        provider: Arc::new(psp::Client::new(url, LONG).unwrap()),
        ..reconciler(&harness, Duration::ZERO)
    };
    let all = all();
    let other = async {
        eventually("the first reads the ledger", async || {
            call_count(&harness.psp).await == 1
        })
        .await;
        let rejected = reconciler(&harness, Duration::ZERO).reconcile(&all).await;
        provider.release();
        rejected
    };
    let (one, two) = tokio::join!(slow.reconcile(&all), other);
    assert!(one.is_ok(), "{one:?}");
    assert!(matches!(two, Err(Error::Busy)), "{two:?}");
    reconcile(&harness).await;
}
