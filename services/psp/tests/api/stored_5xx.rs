//! Both replay styles of real providers: a 5xx is stored under its key, or it is not stored.

use serde_json::json;

use crate::server::{Server, order};

const STORED: &[&str] = &["--psp-replay-5xx", "stored"];
const FRESH: &[&str] = &["--psp-replay-5xx", "fresh"];

async fn failing_once(style: &[&str], point: &str, status: u16) -> Server {
    let server = Server::start_with(style).await;
    let fault = json!({"point": point, "action": "error", "status": status, "times": 1});
    server.arm(fault).await;
    assert_eq!(server.charge("k", &order("o-1")).await.status, status);
    server
}

#[tokio::test]
async fn stored_5xx_replays_whether_or_not_the_charge_was_made() {
    for (point, charged) in [
        ("before_charge", 0),
        ("during_charge", 0),
        ("after_charge", 1),
    ] {
        let server = failing_once(STORED, point, 500).await;
        for _ in 0..2 {
            let again = server.charge("k", &order("o-1")).await;
            assert_eq!(
                (again.status.as_u16(), again.replayed),
                (500, true),
                "{point}"
            );
        }
        assert_eq!(
            (server.charged().await, server.stored().await),
            (charged, 1),
            "{point}"
        );
        // The books show what the response does not.
        let found = server.get("/v1/charges?key=k").await;
        assert_eq!(
            found["data"].as_array().unwrap().len() as i64,
            charged,
            "{point}"
        );
    }
}

#[tokio::test]
async fn fresh_5xx_is_not_stored_and_the_retry_gets_the_charge() {
    for (point, charged) in [
        ("before_charge", 0),
        ("during_charge", 0),
        ("after_charge", 1),
    ] {
        let server = failing_once(FRESH, point, 503).await;
        assert_eq!(
            (server.charged().await, server.stored().await),
            (charged, charged),
            "{point}"
        );
        let again = server.charge("k", &order("o-1")).await;
        assert_eq!(
            (again.status.as_u16(), again.replayed),
            (201, charged == 1),
            "{point}"
        );
        assert_eq!(server.charged().await, 1, "{point}");
    }
}

#[tokio::test]
async fn errors_that_ask_for_a_retry_are_never_stored() {
    for status in [409, 429] {
        for (point, charged) in [("before_charge", 0), ("after_charge", 1)] {
            let server = failing_once(STORED, point, status).await;
            assert_eq!(server.stored().await, charged, "{point} {status}");
            assert_eq!(
                server.charge("k", &order("o-1")).await.status,
                201,
                "{point} {status}"
            );
            assert_eq!(server.charged().await, 1);
        }
    }
}

#[tokio::test]
async fn stored_5xx_keeps_its_key_from_another_request() {
    let server = failing_once(STORED, "before_charge", 500).await;
    assert_eq!(
        server.charge("k", &order("o-2")).await.code(),
        "idempotency_key_reused"
    );
    assert_eq!(server.charged().await, 0);
}
