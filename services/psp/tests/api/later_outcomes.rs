//! Charges and refunds that are pending first. The tests make rows due instead of waiting for the time.

use std::time::Duration;

use futures_util::future::join_all;
use psp::settler::{Settler, Step};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::server::{Server, eventually, order, paid_with, refund_of};

/// Pending rows stay pending until a test makes them due.
const AN_HOUR: &[&str] = &["--psp-processing-ms", "3600000"];
/// Longer than a step can take that does not wait for a lock.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

async fn make_due(server: &Server) {
    for sql in [
        "update charges set settles_at = now() - interval '1 second' where status = 'pending'",
        "update refunds set settles_at = now() - interval '1 second' where status = 'pending'",
    ] {
        sqlx::query(sql).execute(&server.books).await.unwrap();
    }
}

/// Makes everything due, and waits until the settler has given every row its final status.
async fn settle(server: &Server) {
    make_due(server).await;
    let sql = "select (select count(*) from charges where status = 'pending')
                    + (select count(*) from refunds where status = 'pending')";
    eventually("nothing is pending", async || {
        let pending: i64 = sqlx::query_scalar(sql)
            .fetch_one(&server.books)
            .await
            .unwrap();
        pending == 0
    })
    .await;
}

/// Status and failure code of the charge, wherever the API shows it.
async fn assert_charge_shows(server: &Server, id: &Value, status: &str, code: &Value) {
    let one = server
        .get(&format!("/v1/charges/{}", id.as_str().unwrap()))
        .await;
    let mut shown = vec![one];
    for path in [
        "/v1/charges?key=k",
        "/v1/charges?reference=o-1",
        "/v1/ledger",
    ] {
        shown.push(server.get(path).await["data"][0].clone());
    }
    for charge in shown {
        assert_eq!(charge["id"], *id);
        assert_eq!(
            (&charge["status"], charge.get("failure_code")),
            (&json!(status), Some(code).filter(|code| !code.is_null()))
        );
    }
}

#[tokio::test]
async fn processing_card_is_pending_and_then_final() {
    for (method, status, code) in [
        ("pm_card_processing", "captured", Value::Null),
        (
            "pm_card_processing_fails",
            "failed",
            json!("insufficient_funds"),
        ),
    ] {
        let server = Server::start_with(AN_HOUR).await;
        let body = paid_with("o-1", method);
        let first = server.charge("k", &body).await;
        assert_eq!(first.status, 201, "{method}");
        let charge = first.json();
        assert_eq!(charge["status"], "pending", "{method}");
        assert_eq!(charge.get("failure_code"), None, "{method}");
        assert_charge_shows(&server, &charge["id"], "pending", &Value::Null).await;
        settle(&server).await;
        assert_charge_shows(&server, &charge["id"], status, &code).await;
        // A replay is the first response; only a lookup shows what became of it.
        let again = server.charge("k", &body).await;
        assert_eq!((again.replayed, &again.text), (true, &first.text));
        assert_eq!((server.charged().await, server.stored().await), (1, 1));
    }
}

#[tokio::test]
async fn refund_is_pending_and_then_final() {
    for (method, status, code) in [
        ("pm_card_refund_slow", "refunded", Value::Null),
        ("pm_card_refund_fails", "failed", json!("account_closed")),
    ] {
        let server = Server::start_with(AN_HOUR).await;
        let charge = server.charge("k", &paid_with("o-1", method)).await.json();
        assert_eq!(charge["status"], "captured", "{method}");
        let first = server.refund("back", &refund_of(&charge)).await;
        assert_eq!(first.status, 201, "{method}");
        assert_eq!(first.json()["status"], "pending", "{method}");
        for settled in [false, true] {
            let (status, code) = if settled {
                settle(&server).await;
                (status, Some(&code).filter(|code| !code.is_null()))
            } else {
                ("pending", None)
            };
            for shown in [
                &server.get("/v1/refunds?key=back").await["data"][0],
                &server.get("/v1/refunds?reference=o-1").await["data"][0],
                &server.get("/v1/ledger").await["data"][0]["refunds"][0],
            ] {
                assert_eq!(shown["id"], first.json()["id"]);
                let seen = (&shown["status"], shown.get("failure_code"));
                assert_eq!(seen, (&json!(status), code), "{method}");
            }
        }
        assert_charge_shows(&server, &charge["id"], "captured", &Value::Null).await;
        let again = server.refund("back", &refund_of(&charge)).await;
        assert_eq!((again.replayed, &again.text), (true, &first.text));
        assert_eq!(server.refunded().await, 1);
    }
}

#[tokio::test]
async fn processing_time_is_a_setting() {
    let server = Server::start_with(AN_HOUR).await;
    let body = paid_with("o-1", "pm_card_processing");
    server.charge("k", &body).await;
    let sql = "select settles_at - created_at = interval '1 hour' from charges";
    let an_hour: bool = sqlx::query_scalar(sql)
        .fetch_one(&server.books)
        .await
        .unwrap();
    assert!(an_hour);

    let server = Server::start_with(&["--psp-processing-ms", "1"]).await;
    let charge = server.charge("k", &body).await.json();
    assert_eq!(charge["status"], "pending");
    eventually("the charge is captured", async || {
        server.get("/v1/charges?key=k").await["data"][0]["status"] == "captured"
    })
    .await;
}

#[tokio::test]
async fn only_a_captured_charge_is_refunded() {
    for (method, refunded) in [
        ("pm_card_processing", 201),
        ("pm_card_processing_fails", 422),
    ] {
        let server = Server::start_with(AN_HOUR).await;
        let charge = server.charge("k", &paid_with("o-1", method)).await.json();
        let body = refund_of(&charge);
        let early = server.refund("back", &body).await;
        assert_eq!(early.status, 422, "{method}");
        assert_eq!(early.code(), "charge_not_captured");
        settle(&server).await;
        let later = server.refund("back", &body).await;
        assert_eq!(later.status, refunded, "{method}");
        if refunded == 422 {
            assert_eq!(later.code(), "charge_not_captured");
        }
        assert_eq!(server.refunded().await, i64::from(refunded == 201));
    }
}

#[tokio::test]
async fn cancelling_a_pending_charge_changes_nothing() {
    let server = Server::start_with(AN_HOUR).await;
    let body = paid_with("o-1", "pm_card_processing");
    let first = server.charge("k", &body).await;
    let pending = json!({"key": "k", "status": "pending", "charge": first.json()});
    for _ in 0..2 {
        let response = server.cancel("k").await;
        assert_eq!(response.status, 200);
        assert_eq!(response.json(), pending);
    }
    assert_eq!(server.charge("k", &body).await.text, first.text);
    settle(&server).await;
    let response = server.cancel("k").await.json();
    assert_eq!(response["status"], "captured");
    assert_eq!(response["charge"]["status"], "captured");
}

#[tokio::test]
async fn cancelling_a_failed_charge_cancels_its_key() {
    for expired in [false, true] {
        let server = Server::start_with(AN_HOUR).await;
        let body = paid_with("o-1", "pm_card_processing_fails");
        server.charge("k", &body).await;
        settle(&server).await;
        if expired {
            let sql = "update requests set expires_at = now() - interval '1 minute'";
            sqlx::query(sql).execute(&server.books).await.unwrap();
        }
        for _ in 0..2 {
            let response = server.cancel("k").await;
            assert_eq!(response.status, 200);
            assert_eq!(response.json(), json!({"key": "k", "status": "cancelled"}));
        }
        for body in [&body, &order("o-1")] {
            assert_eq!(server.charge("k", body).await.code(), "cancelled");
        }
        assert_eq!((server.charged().await, server.stored().await), (1, 1));
    }
}

#[tokio::test]
async fn cancelling_finds_a_capture_behind_a_failed_charge() {
    let server = Server::start_with(AN_HOUR).await;
    let failing = paid_with("o-1", "pm_card_processing_fails");
    server.charge("k", &failing).await;
    settle(&server).await;
    let expire = "update requests set expires_at = now() - interval '1 minute'";
    sqlx::query(expire).execute(&server.books).await.unwrap();
    let captured = server.charge("k", &order("o-1")).await.json();
    let response = server.cancel("k").await.json();
    assert_eq!(response["status"], "captured");
    assert_eq!(response["charge"], captured);
}

/// A stopped provider that has accepted a charge for each reference, and all are due.
async fn stopped_with_due(references: &[&str]) -> Server {
    let mut server = Server::start_with(AN_HOUR).await;
    for reference in references {
        let body = paid_with(reference, "pm_card_processing");
        server.charge(reference, &body).await;
    }
    server.stop().await;
    make_due(&server).await;
    server
}

/// The references of captured charges.
async fn captured(server: &Server) -> Vec<String> {
    let sql = "select reference from charges where status = 'captured' order by reference";
    let captured = sqlx::query_scalar(sql).fetch_all(&server.books).await;
    captured.unwrap()
}

#[tokio::test]
async fn settler_skips_a_row_that_another_one_holds() {
    let server = stopped_with_due(&["free-1", "free-2", "held"]).await;
    let mut other = server.books.begin().await.unwrap();
    let hold = "select id from charges where reference = 'held' for update";
    sqlx::query(hold).execute(&mut *other).await.unwrap();
    let settler = Settler::new(server.books.clone());
    let step = timeout(STEP_TIMEOUT, settler.step()).await;
    assert_eq!(step.expect("waits for the held row").unwrap(), Step::Done);
    assert_eq!(captured(&server).await, ["free-1", "free-2"]);
    other.rollback().await.unwrap();
    settler.step().await.unwrap();
    assert_eq!(captured(&server).await, ["free-1", "free-2", "held"]);
}

#[tokio::test]
async fn two_settlers_settle_what_a_stopped_provider_accepted() {
    let references: Vec<String> = (10..30).map(|n| format!("o-{n}")).collect();
    let names: Vec<&str> = references.iter().map(String::as_str).collect();
    let server = stopped_with_due(&names).await;
    let settler = Settler::new(server.books.clone());
    let (one, two) = tokio::join!(settler.step(), settler.step());
    assert_eq!((one.unwrap(), two.unwrap()), (Step::Done, Step::Done));
    assert_eq!(captured(&server).await, references);
}

#[tokio::test]
async fn statuses_of_one_batch_are_not_mixed_up() {
    let server = Server::start_with(AN_HOUR).await;
    let methods = [
        ("pm_card_ok", 201, "captured"),
        ("pm_card_processing", 201, "captured"),
        ("pm_card_declined", 402, ""),
        ("pm_card_processing_fails", 201, "failed"),
    ];
    let charges = (0..120).map(async |n: usize| {
        let (method, status, _) = methods[n % methods.len()];
        let body = paid_with(&format!("o-{n}"), method);
        let response = server.charge(&format!("k-{n}"), &body).await;
        assert_eq!(response.status, status, "{method}");
    });
    join_all(charges).await;
    settle(&server).await;
    let ledger = server.get("/v1/ledger?limit=1000").await;
    let charges = ledger["data"].as_array().unwrap();
    assert_eq!(charges.len(), 90);
    for charge in charges {
        let expected = methods.iter().find(|it| it.0 == charge["payment_method"]);
        assert_eq!(charge["status"], expected.unwrap().2);
        assert_eq!(
            charge["failure_code"].is_string(),
            charge["status"] == "failed"
        );
    }
}
