//! The service at work, as an operator sees it.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::Value;
use testkit::smtp_sink::Action;

use crate::application::start;
use crate::harness::{Harness, eventually};

/// Makes the record of a sent mail fail, as a database does that is just being restarted, and counts
/// the tries in a sequence, which no rollback takes back.
const BREAK_RECORD: &str = "
    create sequence records;
    create function refuse() returns trigger language plpgsql as $$
    begin
        perform nextval('records');
        raise exception 'going down' using errcode = '57P01';
    end $$;
    create trigger refuse before update on receipts for each row when (new.status = 'sent')
        execute function refuse();";

#[tokio::test]
async fn a_mail_whose_record_fails_is_recorded_when_the_database_is_back_and_not_sent_again() {
    let harness = Harness::create().await;
    harness.execute(BREAK_RECORD).await;
    let order = harness.log_new().await;
    let running = start(&harness, &[]).await;
    eventually("it has tried again and again", async || {
        harness.count("select last_value from records").await >= 3
    })
    .await;
    assert_eq!(harness.row(order).await.state(), ("pending", 1, 1));
    harness.execute("drop trigger refuse on receipts").await;
    harness.sent(1).await;
    assert_eq!(harness.row(order).await.state(), ("sent", 1, 1));
    assert_eq!(harness.mails().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn no_transaction_is_open_while_the_mail_server_thinks() {
    let harness = Harness::create().await;
    for _ in 0..5 {
        harness.log_new().await;
    }
    harness.misbehave(Action::Hang, 5);
    let running = start(&harness, &["--smtp-data-timeout-ms", "1500"]).await;
    eventually("the mails are out", async || harness.mails().len() == 5).await;
    let open = "select count(*) from pg_stat_activity
                where datname = current_database() and state like 'idle in transaction%'";
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(300) {
        assert_eq!(harness.count(open).await, 0);
    }
    // Told to stop, it waits for what is under way and records that nobody knows.
    running.stop().await;
    let doubted = "select count(*) from receipts
                   where status = 'pending' and doubts = 1 and lease_token is null";
    assert_eq!(harness.count(doubted).await, 5);
    assert_eq!(harness.mails().len(), 5);
}

#[tokio::test]
async fn an_operator_can_ask_what_became_of_a_receipt() {
    let harness = Harness::create().await;
    harness.misbehave(Action::RejectContent(550), 1);
    let order = harness.log_new().await;
    let running = start(&harness, &[]).await;
    let url = |id: &str| format!("http://127.0.0.1:{}/admin/receipts/{id}", running.port);
    let ask = async || -> Value {
        let answer = reqwest::get(url(&order.to_string())).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        answer.json().await.unwrap()
    };
    eventually("it is refused", async || ask().await["status"] == "failed").await;
    let entry = ask().await;
    assert_eq!(entry["tries"], 1);
    assert_eq!(entry["last_error"], "550 refused as told");
    assert_eq!(entry["sent_at"], Value::Null);
    assert_eq!(entry["order_id"], order.to_string());
    for nothing in ["nonsense", "00000000-0000-0000-0000-000000000000"] {
        let answer = reqwest::get(url(nothing)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
    }
    running.stop().await;
}
