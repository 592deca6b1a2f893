//! A key is charged or cancelled, never both, no matter which request comes first.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Postgres, Transaction};

use crate::api_response::ApiResponse;
use crate::server::{Server, eventually, order};

/// Keys that are charged and cancelled at the same time.
const KEYS: usize = 200;

/// Repeats a request while its key is in flight (409), or while the pool of a busy machine has no
/// connection left for it (503).
async fn settled(mut send: impl AsyncFnMut() -> ApiResponse) -> ApiResponse {
    let mut last = None;
    eventually("the key is settled", async || {
        let response = send().await;
        let settled = response.status != 409 && response.status != 503;
        last = Some(response);
        settled
    })
    .await;
    last.unwrap()
}

/// Charges at one provider and cancels at another, at the same time, under many keys.
async fn race(charging: &Server, cancelling: &Server) {
    let one = async |n: usize| {
        let (key, body) = (format!("k-{n}"), order(&format!("o-{n}")));
        let charge = settled(async || charging.charge(&key, &body).await);
        let cancel = settled(async || cancelling.cancel(&key).await);
        // Alternates which of the two is sent first.
        let (charge, cancel) = if n.is_multiple_of(2) {
            tokio::join!(charge, cancel)
        } else {
            let (cancel, charge) = tokio::join!(cancel, charge);
            (charge, cancel)
        };
        let path = format!("/v1/charges?key={key}");
        let found = settled(async || charging.call(Method::GET, &path, None).await).await;
        assert_one_or_the_other(&charge, &cancel, &found.json()["data"]);
    };
    join_all((0..KEYS).map(one)).await;
}

fn assert_one_or_the_other(charge: &ApiResponse, cancel: &ApiResponse, books: &Value) {
    assert_eq!(cancel.status, 200, "{cancel:?}");
    let cancel = cancel.json();
    let books = books.as_array().unwrap();
    match charge.status.as_u16() {
        201 => {
            assert_eq!(cancel["status"], "captured");
            let mut found = charge.json();
            assert_eq!(cancel["charge"], found);
            found["refunds"] = json!([]);
            assert_eq!(books, &[found]);
        }
        402 => {
            assert_eq!(charge.code(), "cancelled");
            assert_eq!(cancel["status"], "cancelled");
            assert!(books.is_empty(), "cancelled and charged: {books:?}");
        }
        other => panic!("unexpected: {other}"),
    }
}

#[tokio::test]
async fn key_is_charged_or_cancelled_but_not_both() {
    let server = Server::start().await;
    race(&server, &server).await;
}

#[tokio::test]
async fn key_is_charged_or_cancelled_across_two_processes() {
    let server = Server::start().await;
    let second = server.start_second().await;
    race(&server, &second).await;
}

/// Waits until a statement is blocked by a row lock.
async fn statement_is_blocked(server: &Server) {
    let sql = "select count(*) from pg_stat_activity
               where datname = current_database() and wait_event_type = 'Lock'";
    eventually("a statement waits for the row", async || {
        let waiting: i64 = sqlx::query_scalar(sql)
            .fetch_one(&server.books)
            .await
            .unwrap();
        waiting > 0
    })
    .await;
}

/// Writes what another process writes for a charge under a key whose row has expired, or for a charge
/// whose response is a stored 5xx. The transaction stays open.
async fn charge_elsewhere(server: &Server, status: i16) -> Transaction<'static, Postgres> {
    let mut charge = server.books.begin().await.unwrap();
    sqlx::query(
        "update requests set operation = 'charge', status = $1, charge_id = gen_random_uuid(),
                             expires_at = now() + interval '1 minute'",
    )
    .bind(status)
    .execute(&mut *charge)
    .await
    .unwrap();
    sqlx::query(
        "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                              status, created_at)
         select charge_id, key, 'o-1', 5000, 'USD', 'pm_card_ok', 'captured', now() from requests",
    )
    .execute(&mut *charge)
    .await
    .unwrap();
    charge
}

#[tokio::test]
async fn cancellation_waits_for_a_charge_and_then_finds_it() {
    for status in [201, 500] {
        let server = Server::start().await;
        server.cancel("k").await;
        let expire = "update requests set expires_at = now() - interval '1 minute'";
        sqlx::query(expire).execute(&server.books).await.unwrap();
        let charge = charge_elsewhere(&server, status).await;
        let (cancel, ()) = tokio::join!(server.cancel("k"), async {
            statement_is_blocked(&server).await;
            charge.commit().await.unwrap();
        });
        assert_eq!(
            cancel.status, 409,
            "neither cancelled nor found: {cancel:?}"
        );
        assert_eq!(server.cancel("k").await.json()["status"], "captured");
    }
}

#[tokio::test]
async fn charge_waits_for_a_cancellation_and_is_then_declined() {
    let server = Server::start().await;
    let mut cancel = server.books.begin().await.unwrap();
    let sql = r#"insert into requests
                     (key, operation, fingerprint, status, body, created_at, expires_at)
                 values ('k', 'cancellation', '', 402, '{"error":{"code":"cancelled"}}', now(),
                         now() + interval '1 minute')"#;
    sqlx::query(sql).execute(&mut *cancel).await.unwrap();
    let body = order("o-1");
    let (charge, ()) = tokio::join!(server.charge("k", &body), async {
        statement_is_blocked(&server).await;
        cancel.commit().await.unwrap();
    });
    assert_eq!(charge.status, 409, "{charge:?}");
    assert_eq!(server.charge("k", &body).await.code(), "cancelled");
    assert_eq!(server.charged().await, 0);
}
