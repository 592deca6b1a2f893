//! The incremental checker notices what changes, also in old orders.

use invariants::{Money, ProofState, Severity, Verdict};
use uuid::Uuid;

use crate::tables::{Tables, load};

fn severities(state: &ProofState) -> Vec<(Option<&str>, Severity)> {
    let problems = state.problems.iter();
    problems
        .map(|problem| (problem.order_id.as_deref(), problem.severity))
        .collect()
}

#[tokio::test]
async fn second_charge_of_an_old_order_is_found_and_heals() {
    let tables = Tables::create().await;
    let history = tables.add_history(2_000, 3).await;
    let mut proof = tables.proof();
    let state = load(&mut proof).await;
    assert_eq!(state.verdict, Verdict::Holds, "{state:#?}");
    assert_eq!((state.accepted, state.charged_once), (2_000, 2_000));
    let old = history[7].to_string();

    let charge = Uuid::now_v7();
    tables.add_charge(charge, &old, "captured").await;
    let state = proof.step().await.unwrap();
    assert_eq!(state.verdict, Verdict::Violated);
    assert_eq!(severities(&state), [(Some(&*old), Severity::Violated)]);
    assert_eq!((state.charged_once, state.charged_more), (1_999, 1));
    assert_eq!(state.money.difference, 5_000);

    tables.add_refund(charge, "refunded").await;
    let state = proof.step().await.unwrap();
    assert_eq!(state.verdict, Verdict::Repaired);
    assert_eq!(severities(&state), [(Some(&*old), Severity::Repaired)]);
    assert_eq!((state.money.refunded, state.money.difference), (5_000, 0));

    let delete = "delete from charges where id = $1";
    tables.change_books(delete, charge).await;
    let state = proof.step().await.unwrap();
    assert_eq!(state.verdict, Verdict::Holds, "{state:#?}");
    assert_eq!((state.charged_once, state.charged_more), (2_000, 0));
}

/// A person who inserts a row chooses any id: a random one, or one before all others.
#[tokio::test]
async fn charge_under_any_id_is_found() {
    let tables = Tables::create().await;
    let history = tables.add_history(1_000, 3).await;
    let mut proof = tables.proof();
    load(&mut proof).await;
    let random = "e1b0b8a4-0f4c-4d52-9a52-1f4b6b0f2f11".parse().unwrap();
    tables
        .add_charge(random, &history[3].to_string(), "captured")
        .await;
    let state = proof.step().await.unwrap();
    assert_eq!((state.verdict, state.charged_more), (Verdict::Violated, 1));
    // The rows after it are still found by their position.
    let new = tables.add_order("placed").await;
    tables
        .add_charge(Uuid::now_v7(), &new.to_string(), "captured")
        .await;
    let state = proof.step().await.unwrap();
    assert_eq!((state.accepted, state.charged_once), (1_001, 1_000));

    let first = Uuid::from_u128(1);
    tables
        .add_charge(first, &history[4].to_string(), "captured")
        .await;
    // The walk reads 100 charges per step.
    let mut charged_more = Vec::new();
    for _ in 0..12 {
        charged_more.push(proof.step().await.unwrap().charged_more);
    }
    assert_eq!(charged_more.last(), Some(&2), "{charged_more:?}");
}

#[tokio::test]
async fn order_is_followed_from_placed_to_its_end() {
    let tables = Tables::create().await;
    let mut proof = tables.proof();
    let order = tables.add_order("placed").await;
    let state = load(&mut proof).await;
    assert_eq!((state.accepted, state.not_charged_yet), (1, 1));
    let charge = Uuid::now_v7();
    tables
        .add_charge(charge, &order.to_string(), "pending")
        .await;
    let state = proof.step().await.unwrap();
    assert_eq!((state.not_charged_yet, state.money.charged), (1, 0));

    let capture = "update charges set status = 'captured' where id = $1";
    tables.change_books(capture, charge).await;
    let state = proof.step().await.unwrap();
    let on_its_way = Money {
        charged: 5_000,
        refunded: 0,
        due: 5_000,
        difference: 0,
    };
    assert_eq!((state.charged_once, state.money), (1, on_its_way));
    assert_eq!(state.verdict, Verdict::Holds);

    tables.set_status(order, "paid").await;
    tables.add_refund(charge, "pending").await;
    assert_eq!(proof.step().await.unwrap().money, on_its_way);
    let complete = "update refunds set status = 'refunded' where charge_id = $1";
    tables.change_books(complete, charge).await;
    let state = proof.step().await.unwrap();
    assert_eq!((state.money.refunded, state.money.due), (5_000, 0));
    tables.set_status(order, "refunded").await;
    let state = proof.step().await.unwrap();
    assert_eq!((state.verdict, state.money.difference), (Verdict::Holds, 0));
}

#[tokio::test]
async fn shipment_without_a_charge_is_violated() {
    let tables = Tables::create().await;
    let order = tables.add_order("shipped").await;
    let mut proof = tables.proof();
    let state = load(&mut proof).await;
    assert_eq!(state.verdict, Verdict::Violated);
    assert_eq!(
        state.problems[0].invariant,
        "I5 no shipment without a capture"
    );
    assert_eq!(state.money.difference, -5_000);
    tables
        .add_charge(Uuid::now_v7(), &order.to_string(), "captured")
        .await;
    assert_eq!(proof.step().await.unwrap().verdict, Verdict::Holds);
}

/// A declined order is terminal until the customer pays again; then its charge is expected.
#[tokio::test]
async fn declined_order_that_is_paid_again_holds() {
    let tables = Tables::create().await;
    let order = tables.add_order("declined").await;
    let mut proof = tables.proof();
    let state = load(&mut proof).await;
    assert_eq!((state.not_charged_yet, state.ended_uncharged), (0, 1));
    tables.set_status(order, "placed").await;
    tables
        .add_charge(Uuid::now_v7(), &order.to_string(), "captured")
        .await;
    let state = proof.step().await.unwrap();
    assert_eq!((state.verdict, state.charged_once), (Verdict::Holds, 1));
    // Money of an order that has no use for it.
    tables.set_status(order, "declined").await;
    let state = proof.step().await.unwrap();
    assert_eq!(state.verdict, Verdict::Violated, "{state:#?}");
    assert_eq!(state.problems[0].invariant, "I2 the money adds up");
}

#[tokio::test]
async fn direct_charge_is_due_and_an_unexplained_one_is_not() {
    let tables = Tables::create().await;
    let payment = Uuid::new_v4();
    let reference = format!("direct:{payment}");
    sqlx::query(
        "insert into payments (order_id, attempt, amount, currency, payment_method, lines, status,
                               charge_id, principal_id, request_key, content_hash, correlation_id,
                               provider_reference)
         values ($1, 0, 5000, 'USD', 'pm', '[]', 'captured', 'ch', 'acme', 'k', '', 'c', $2)",
    )
    .bind(payment)
    .bind(&reference)
    .execute(&tables.payment)
    .await
    .unwrap();
    tables
        .add_charge(Uuid::now_v7(), &reference, "captured")
        .await;
    let mut proof = tables.proof();
    let state = load(&mut proof).await;
    assert_eq!((state.verdict, state.accepted), (Verdict::Holds, 0));
    assert_eq!((state.money.due, state.money.difference), (5_000, 0));
    tables
        .add_charge(Uuid::now_v7(), "a cart", "captured")
        .await;
    let state = proof.step().await.unwrap();
    assert_eq!(severities(&state), [(Some("a cart"), Severity::Violated)]);
    assert_eq!(state.problems[0].invariant, "L5 books = payments");
    assert_eq!(state.money.difference, 5_000);
}
