//! The provider's books against the payment table, both ways.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use payment::psp;
use payment::reconciler::{Error, Reconciler, Trigger};
use payment::store::reconciliations::Report;
use payment::waiting::Waiting;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;
use wiremock::matchers::{method, path};
use wiremock::{Mock, Request, ResponseTemplate};

use crate::provider::{asked, captures, refunds};
use crate::refusals::refuse;
use crate::world::{LONG, World};

pub(crate) const ALL: Trigger = Trigger::Operator { all: true };

pub(crate) fn reconciler(world: &World, grace: Duration) -> Reconciler {
    Reconciler {
        pool: world.pool.clone(),
        psp: psp::Client::new(&world.psp.uri(), Duration::from_secs(5)).unwrap(),
        interval: Duration::ZERO,
        grace,
        unheard_grace: Duration::ZERO,
        lookback: Duration::from_secs(3_600),
        wake: outbox::Wake::default(),
        refund_due: Arc::new(Notify::new()),
        waiting: Waiting::default(),
    }
}

async fn sweep(world: &World) -> Report {
    let swept = reconciler(world, Duration::ZERO).sweep(ALL).await;
    swept.unwrap()
}

pub(crate) fn charge(id: Uuid, order: Uuid, key: String) -> Value {
    json!({
        "id": id, "status": "captured", "reference": order, "amount": 5_000, "currency": "USD",
        "payment_method": "pm_card_ok", "idempotency_key": key, "created_at": Utc::now(),
        "refunds": [],
    })
}

/// The books hold these charges, given out two to a page.
pub(crate) async fn books_hold(world: &World, mut charges: Vec<Value>) {
    charges.sort_by_key(|charge| charge["id"].as_str().unwrap().to_owned());
    let page = move |request: &Request| {
        let mut query = request.url.query_pairs();
        let after = query.find(|(name, _)| name == "after").unwrap().1;
        let behind = |charge: &&Value| charge["id"].as_str().unwrap() > &*after;
        let rest: Vec<&Value> = charges.iter().filter(behind).collect();
        let next = (rest.len() > 2).then(|| rest[1]["id"].clone());
        let data = &rest[..rest.len().min(2)];
        ResponseTemplate::new(200).set_body_json(json!({ "data": data, "next": next }))
    };
    let ledger = Mock::given(method("GET")).and(path("/v1/ledger"));
    ledger.respond_with(page).mount(&world.psp).await;
}

fn kinds(report: &Report) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let differences = report.differences.as_array().unwrap().iter();
    let mut kinds: Vec<_> = differences
        .map(|it| (text(&it["kind"]), text(&it["action"])))
        .collect();
    kinds.sort();
    kinds
}

fn pair(kind: &str, action: &str) -> (String, String) {
    (kind.to_owned(), action.to_owned())
}

#[tokio::test]
async fn books_that_agree_are_left_alone_over_all_pages() {
    let world = World::create().await;
    let mut charges = Vec::new();
    for _ in 0..5 {
        let (order, id) = (world.open_new().await, Uuid::now_v7());
        charges.push(charge(id, order, format!("pay:{order}:1")));
        settle(&world, order, &id.to_string()).await;
    }
    books_hold(&world, charges).await;
    let report = sweep(&world).await;
    assert_eq!((report.pages, report.charges, report.attempts), (3, 5, 5));
    assert_eq!((report.differing, report.settled), (0, 0));
    assert!(report.finished_at.is_some());
}

/// As if the attempt had been captured with this charge.
async fn settle(world: &World, order: Uuid, charge_id: &str) {
    sqlx::query("update payments set status = 'captured', charge_id = $2 where order_id = $1")
        .bind(order)
        .bind(charge_id)
        .execute(&world.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_attempt_that_does_not_know_of_its_charge_is_settled_once() {
    let world = World::create().await;
    let (order, id) = (world.open_new().await, Uuid::now_v7());
    books_hold(&world, vec![charge(id, order, format!("pay:{order}:1"))]).await;
    let report = sweep(&world).await;
    assert_eq!(report.settled, 1);
    assert_eq!(kinds(&report), [pair("outcome_unknown", "settled")]);
    let payment = world.payment(order, 1).await;
    assert_eq!(payment.status, "captured");
    assert_eq!(payment.charge_id, Some(id.to_string()));
    assert_eq!(world.events(order).await.len(), 1);

    let again = sweep(&world).await;
    assert_eq!((again.settled, again.differing), (0, 0));
    assert_eq!(world.events(order).await.len(), 1);
}

#[tokio::test]
async fn a_charger_that_answers_after_the_reconciler_changes_nothing() {
    let world = World::create().await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    let late = world.stepper(LONG).call().await;
    let id = Uuid::now_v7();
    books_hold(&world, vec![charge(id, order, format!("pay:{order}:1"))]).await;
    assert_eq!(sweep(&world).await.settled, 1);
    assert_eq!(world.record(&late).await.unwrap(), 0);
    assert_eq!(world.events(order).await.len(), 1);
}

#[tokio::test]
async fn a_refused_attempt_that_was_charged_after_all_is_settled_and_refunded() {
    let world = World::create().await;
    refunds(&world.psp).await;
    let order = world.open_new().await;
    // Sent once, with nothing mounted to answer; then refused.
    let unknown = world.stepper(LONG).call().await;
    world.record(&unknown).await.unwrap();
    refuse(&world, order, 1).await;
    let id = Uuid::now_v7();
    books_hold(&world, vec![charge(id, order, format!("pay:{order}:1"))]).await;
    let report = sweep(&world).await;
    assert_eq!((report.settled, report.refunds_opened), (1, 1));
    let answers = world.stepper(LONG).call().await;
    assert_eq!(world.record(&answers).await.unwrap(), 1);
    assert_eq!(world.events(order).await.len(), 2, "captured and refunded");
}

#[tokio::test]
async fn charges_that_no_attempt_owns_go_back_once_each() {
    let world = World::create().await;
    refunds(&world.psp).await;
    let ids = [(); 4].map(|()| Uuid::now_v7());
    let (captured, voided) = (world.open_new().await, world.open_new().await);
    settle(&world, captured, &ids[0].to_string()).await;
    refuse(&world, voided, 1).await;
    let stranger = Uuid::new_v4();
    books_hold(
        &world,
        vec![
            charge(ids[0], captured, format!("pay:{captured}:1")),
            // The provider forgot the key and charged again.
            charge(ids[1], captured, format!("pay:{captured}:1")),
            charge(ids[2], voided, format!("pay:{voided}:1")),
            charge(ids[3], stranger, format!("pay:{stranger}:1")),
        ],
    )
    .await;
    let report = sweep(&world).await;
    assert_eq!(report.refunds_opened, 3);
    let orphan = pair("orphan_charge", "refund opened");
    assert_eq!(kinds(&report), vec![orphan; 3]);
    let answers = world.stepper(LONG).call().await;
    assert_eq!(world.record(&answers).await.unwrap(), 3);
    assert_eq!(asked(&world.psp, "POST", "/v1/refunds").await.len(), 3);

    assert_eq!(sweep(&world).await.refunds_opened, 0);
    assert_eq!(world.payment(captured, 1).await.status, "captured");
    assert!(world.events(captured).await.is_empty(), "no order changes");
}

#[tokio::test]
async fn a_charge_whose_attempt_may_still_come_is_waited_for_and_a_foreign_one_is_left_alone() {
    let world = World::create().await;
    let [ours, foreign] = [(); 2].map(|()| Uuid::new_v4());
    books_hold(
        &world,
        vec![
            charge(Uuid::now_v7(), ours, format!("pay:{ours}:1")),
            charge(Uuid::now_v7(), foreign, "made-by-hand".to_owned()),
        ],
    )
    .await;
    let patient = Reconciler {
        unheard_grace: Duration::from_secs(60),
        ..reconciler(&world, Duration::ZERO)
    };
    let report = patient.sweep(ALL).await.unwrap();
    let expected = [
        pair("foreign_charge", "flagged"),
        pair("unheard_charge", "waited for"),
    ];
    assert_eq!(kinds(&report), expected);
    assert_eq!(report.refunds_opened, 0);
}

#[tokio::test]
async fn what_cannot_be_mended_is_flagged() {
    let world = World::create().await;
    let ids = [(); 3].map(|()| Uuid::now_v7());
    let orders = [
        world.open_new().await,
        world.open_new().await,
        world.open_new().await,
    ];
    for (order, id) in orders.iter().zip(ids) {
        settle(&world, *order, &id.to_string()).await;
    }
    let mut amount = charge(ids[0], orders[0], format!("pay:{}:1", orders[0]));
    amount["amount"] = json!(4_999);
    let mut refunded = charge(ids[1], orders[1], format!("pay:{}:1", orders[1]));
    refunded["refunds"] =
        json!([{ "id": "re", "idempotency_key": "by-hand", "amount": 5_000, "created_at": "" }]);
    // The third is missing.
    books_hold(&world, vec![amount, refunded]).await;
    let report = sweep(&world).await;
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
async fn a_refund_that_the_books_have_is_settled() {
    let world = World::create().await;
    let (order, id) = (world.open_new().await, Uuid::now_v7());
    settle(&world, order, &id.to_string()).await;
    refuse(&world, order, 1).await;
    let mut charge = charge(id, order, format!("pay:{order}:1"));
    let key = format!("refund:{order}:1");
    charge["refunds"] = json!([{ "id": "re_1", "idempotency_key": key, "amount": 5_000 }]);
    books_hold(&world, vec![charge]).await;
    let report = sweep(&world).await;
    assert_eq!(report.refunds_settled, 1);
    let events = world.events(order).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].0, "payment.refunded");
    assert_eq!(sweep(&world).await.differing, 0);
}

#[tokio::test]
async fn what_is_young_is_left_to_those_who_are_at_it() {
    let world = World::create().await;
    let (order, id) = (world.open_new().await, Uuid::now_v7());
    let stranger = Uuid::new_v4();
    let orphan = charge(Uuid::now_v7(), stranger, "by-hand".to_owned());
    let young = charge(id, order, format!("pay:{order}:1"));
    books_hold(&world, vec![young, orphan]).await;
    let patient = reconciler(&world, Duration::from_secs(60));
    let report = patient.sweep(ALL).await.unwrap();
    assert_eq!((report.young, report.settled), (2, 0));
    assert_eq!(report.differing, 0);
    assert_eq!(world.payment(order, 1).await.status, "pending");
}

#[tokio::test]
async fn a_sweep_that_broke_off_is_done_again_by_the_next() {
    let world = World::create().await;
    let mut charges = Vec::new();
    for _ in 0..3 {
        let order = world.open_new().await;
        charges.push(charge(Uuid::now_v7(), order, format!("pay:{order}:1")));
    }
    // The first page is read, the second is not.
    let page = json!({ "data": [charges[0]], "next": charges[0]["id"] });
    let ledger = || Mock::given(method("GET")).and(path("/v1/ledger"));
    let first = ResponseTemplate::new(200).set_body_json(page);
    let first = ledger().respond_with(first).up_to_n_times(1);
    first.mount(&world.psp).await;
    let down = ledger().respond_with(ResponseTemplate::new(503));
    down.up_to_n_times(1).mount(&world.psp).await;
    let broken = reconciler(&world, Duration::ZERO).sweep(ALL).await;
    assert!(matches!(broken, Err(Error::Failed(_))), "{broken:?}");
    let captured = "select count(*) from payments where status = 'captured'";
    assert_eq!(world.count(captured).await, 1, "the page that was read");

    books_hold(&world, charges).await;
    let report = sweep(&world).await;
    assert_eq!(report.settled, 2);
    assert_eq!(world.count(captured).await, 3);
    assert_eq!(world.count("select count(*) from outbox").await, 3);
    let interrupted = "select count(*) from reconciliations where finished_at is null";
    assert_eq!(world.count(interrupted).await, 1);
}

#[tokio::test]
async fn two_sweeps_at_once_are_one() {
    let world = World::create().await;
    let slow = ResponseTemplate::new(200)
        .set_body_json(json!({ "data": [], "next": null }))
        .set_delay(Duration::from_millis(500));
    let ledger = Mock::given(method("GET")).and(path("/v1/ledger"));
    ledger.respond_with(slow).mount(&world.psp).await;
    let (one, two) = (
        reconciler(&world, Duration::ZERO),
        reconciler(&world, Duration::ZERO),
    );
    let (one, two) = tokio::join!(one.sweep(ALL), two.sweep(ALL));
    let busy = |swept: &Result<_, Error>| matches!(swept, Err(Error::Busy));
    assert!(busy(&one) != busy(&two), "{one:?} {two:?}");
    sweep(&world).await;
}
