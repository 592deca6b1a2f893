//! The running service, as an operator sees it.

use reqwest::{Method, StatusCode};
use serde_json::Value;
use testkit::postgres::database::transactions_end;
use testkit::smtp_sink::Action;

use crate::application::start;
use crate::harness::{Harness, eventually};

/// Makes recording a sent mail fail with the error of a restarting database. A sequence counts the
/// tries, because a rollback does not reset it.
const BREAK_RECORD: &str = "
    create sequence records;
    create function fail() returns trigger language plpgsql as $$
    begin
        perform nextval('records');
        raise exception 'going down' using errcode = '57P01';
    end $$;
    create trigger fail before update on receipts for each row when (new.status = 'sent')
        execute function fail();";

#[tokio::test]
async fn failed_record_is_retried_and_the_mail_is_not_sent_again() {
    let harness = Harness::create().await;
    harness.execute(BREAK_RECORD).await;
    let order = harness.log_new().await;
    let running = start(&harness, &[]).await;
    eventually("the recorder has tried three times", async || {
        harness.count("select last_value from records").await >= 3
    })
    .await;
    assert_eq!(harness.row(order).await.state(), ("pending", 1, 1));
    harness.execute("drop trigger fail on receipts").await;
    harness.sent(1).await;
    assert_eq!(harness.row(order).await.state(), ("sent", 1, 1));
    assert_eq!(harness.mails().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn no_transaction_is_open_during_a_dialogue() {
    let harness = Harness::create().await;
    for _ in 0..5 {
        harness.log_new().await;
    }
    harness.misbehave(Action::Hang, 5);
    // The dialogues end after their timeout, and no mail is tried again before the test ends.
    let flags = [
        "--smtp-data-timeout-ms",
        "5000",
        "--retry-base-ms",
        "600000",
        "--retry-max-ms",
        "600000",
    ];
    let running = start(&harness, &flags).await;
    eventually("the mails are sent", async || harness.mails().len() == 5).await;
    transactions_end(&harness.pool).await;
    let leased = "select count(*) from receipts where lease_token is not null";
    assert_eq!(harness.count(leased).await, 5, "the dialogues are open");
    // The shutdown waits for open dialogues and records that their outcome is unknown.
    running.stop().await;
    let in_doubt = "select count(*) from receipts
                   where status = 'pending' and tries_in_doubt = 1 and lease_token is null";
    assert_eq!(harness.count(in_doubt).await, 5);
    assert_eq!(harness.mails().len(), 5);
}

#[tokio::test]
async fn operator_can_read_the_state_of_a_receipt() {
    let harness = Harness::create().await;
    harness.misbehave(Action::RejectContent(550), 1);
    let order = harness.log_new().await;
    let running = start(&harness, &[]).await;
    let base = format!("http://127.0.0.1:{}/admin/receipts", running.operator_port);
    let client = testkit::operator::client().unwrap();
    let read = |id: &str| client.request(Method::GET, &format!("{base}/{id}")).send();
    let get = async || -> Value {
        let response = read(&order.to_string()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.json().await.unwrap()
    };
    eventually("the mail has failed", async || {
        get().await["status"] == "failed"
    })
    .await;
    let entry = get().await;
    assert_eq!(entry["tries"], 1);
    assert_eq!(entry["tries_in_doubt"], 0);
    let error = entry["last_error"].as_str().unwrap();
    assert!(error.starts_with("550 "), "{error}");
    assert_eq!(entry["sent_at"], Value::Null);
    assert_eq!(entry["order_id"], order.to_string());
    for missing in ["nonsense", "00000000-0000-0000-0000-000000000000"] {
        let response = read(missing).await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
    }
    running.stop().await;
}
