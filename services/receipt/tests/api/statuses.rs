//! The schema names the same statuses as the enum that the code writes through.

use receipt::domain::resolution::Action;
use receipt::domain::{MailType, Status, TRIES_IN_DOUBT_MAX};
use testkit::postgres::literals;

use crate::harness::Harness;

#[tokio::test]
async fn schema_names_every_receipt_status() {
    let harness = Harness::create().await;
    let mut all = Status::ALL.map(Status::as_str);
    all.sort_unstable();
    let mut mail_types = MailType::ALL.map(MailType::as_str);
    mail_types.sort_unstable();
    let constraints = [
        ("receipts_mail_type_check", mail_types.as_slice()),
        ("receipts_status_check", all.as_slice()),
        ("only_pending_is_leased", &[Status::Pending.as_str()]),
        ("sent_has_a_time", &[Status::Sent.as_str()]),
        (
            "failure_has_a_reason",
            &[Status::Failed.as_str(), Status::Unknown.as_str()],
        ),
    ];
    for (name, expected) in constraints {
        let named = literals::of_constraint(&harness.pool, name).await.unwrap();
        assert!(named.iter().eq(expected), "{name}: {named:?}");
    }
}

/// The queries for operators name these statuses as literals, as the index does.
#[tokio::test]
async fn operator_index_covers_what_waits_for_an_operator() {
    let harness = Harness::create().await;
    let index = literals::of_index(&harness.pool, "receipts_for_operator").await;
    let waiting = Status::ALL.into_iter().filter(|it| it.waits_for_operator());
    let mut waiting: Vec<&str> = waiting.map(Status::as_str).collect();
    waiting.sort_unstable();
    assert!(index.unwrap().iter().eq(waiting));
}

#[tokio::test]
async fn schema_names_every_resolution() {
    let harness = Harness::create().await;
    let constraint = "mail_resolutions_action_check";
    let named = literals::of_constraint(&harness.pool, constraint).await;
    assert!(named.unwrap().iter().eq(Action::ALL.map(Action::as_str)));
}

/// The queries that lease and give up name this status as a literal, as the index does.
#[tokio::test]
async fn due_index_covers_pending_mails() {
    let harness = Harness::create().await;
    let index = literals::of_index(&harness.pool, "receipts_due").await;
    assert!(index.unwrap().iter().eq([Status::Pending.as_str()]));
    let order = harness.log_new().await;
    assert_eq!(harness.row(order).await.status, Status::Pending.as_str());
    assert_eq!(harness.try_once().await, 1, "a pending mail is leased");
}

#[tokio::test]
async fn schema_and_code_agree_on_the_limit_of_tries_in_doubt() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    let set = async |tries_in_doubt: i32| {
        sqlx::query("update receipts set tries_in_doubt = $1 where order_id = $2")
            .bind(tries_in_doubt)
            .bind(order)
            .execute(&harness.pool)
            .await
    };
    assert!(set(TRIES_IN_DOUBT_MAX).await.is_ok());
    assert!(set(TRIES_IN_DOUBT_MAX + 1).await.is_err());
}
