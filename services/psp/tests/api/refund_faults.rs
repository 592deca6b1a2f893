//! Faults at every point of a refund, and the retry with the same key.

use serde_json::{Value, json};

use crate::server::{Server, eventually, order, refund_of};

/// Each point, and the number of refunds in the books after a fault there ended the request.
const POINTS: [(&str, i64); 3] = [
    ("before_refund", 0),
    ("during_refund", 0),
    ("after_refund", 1),
];

/// A provider with one charge and one armed fault, and the request to refund the charge.
async fn with_fault(flags: &[&str], fault: Value) -> (Server, Value) {
    let server = Server::start_with(flags).await;
    let charge = server.charge("pay", &order("o-1")).await.json();
    server.arm(fault).await;
    (server, refund_of(&charge))
}

async fn assert_retry_refunds_once(server: &Server, body: &Value, refunded: i64) {
    let retry = server.refund("back", body).await;
    assert_eq!(
        (retry.status.as_u16(), retry.replayed),
        (201, refunded == 1)
    );
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn after_a_drop_the_retry_refunds_at_most_once() {
    for (point, refunded) in POINTS {
        let fault = json!({"point": point, "action": "drop", "times": 1, "reference": "o-1"});
        let (server, body) = with_fault(&[], fault).await;
        let error = server.try_refund("back", &body).await.unwrap_err();
        assert!(error.is_request() && error.status().is_none(), "{error:?}");
        assert_eq!(server.refunded().await, refunded, "{point}");
        assert_retry_refunds_once(&server, &body, refunded).await;
    }
}

#[tokio::test]
async fn after_an_error_the_retry_refunds_at_most_once() {
    for (point, refunded) in POINTS {
        for status in [500, 409, 429] {
            let fault = json!({"point": point, "action": "error", "status": status, "times": 1,
                               "retry_after_seconds": 7});
            let (server, body) = with_fault(&[], fault).await;
            let hit = server.refund("back", &body).await;
            assert_eq!(hit.status, status, "{point}");
            assert_eq!(hit.retry_after.as_deref(), Some("7"), "{point} {status}");
            assert_eq!(server.refunded().await, refunded, "{point} {status}");
            assert_retry_refunds_once(&server, &body, refunded).await;
        }
    }
}

#[tokio::test]
async fn stored_5xx_replays_whether_or_not_the_refund_was_made() {
    for (point, refunded) in POINTS {
        let fault = json!({"point": point, "action": "error", "status": 503, "times": 1});
        let (server, body) = with_fault(&["--psp-replay-5xx", "stored"], fault).await;
        assert_eq!(server.refund("back", &body).await.status, 503);
        for _ in 0..2 {
            let again = server.refund("back", &body).await;
            let seen = (again.status.as_u16(), again.replayed);
            assert_eq!(seen, (503, true), "{point}");
        }
        assert_eq!(server.refunded().await, refunded, "{point}");
        // The books show what the response does not.
        let found = server.get("/v1/refunds?key=back").await;
        assert_eq!(found["data"].as_array().unwrap().len() as i64, refunded);
    }
}

#[tokio::test]
async fn refund_in_flight_is_409_for_lookups_too() {
    let fault = json!({"point": "during_refund", "action": "hang", "times": 1});
    let (server, body) = with_fault(&[], fault).await;
    tokio::select! {
        response = server.try_refund("back", &body) => panic!("a hang got a response: {response:?}"),
        () = async {
            eventually("the fault applies", async || server.applied().await == [1]).await;
            let second = server.refund("back", &body).await;
            assert_eq!(second.status, 409);
            assert_eq!(second.code(), "idempotency_key_in_flight");
            assert!(second.retry_after.is_some());
            let path = "/v1/refunds?key=back";
            let lookup = server.call(reqwest::Method::GET, path, None).await;
            assert_eq!(lookup.status, 409);
            assert!(lookup.retry_after.is_some());
        } => {}
    }
    eventually("the key is released", async || {
        server.refund("back", &body).await.status == 201
    })
    .await;
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn refund_is_made_once_although_its_caller_hung_up() {
    let fault = json!({"point": "during_refund", "action": "delay", "delay_ms": 1500, "times": 1});
    let (server, body) = with_fault(&[], fault).await;
    tokio::select! {
        response = server.try_refund("back", &body) => panic!("response came too early: {response:?}"),
        () = eventually("the fault applies", async || server.applied().await == [1]) => {}
    }
    eventually("the refund is made without its caller", async || {
        server.refunded().await == 1
    })
    .await;
    eventually("its key is released", async || {
        server.refund("back", &body).await.replayed
    })
    .await;
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn refund_faults_do_not_affect_charges_or_cancellations() {
    let server = Server::start().await;
    for point in ["before_refund", "during_refund", "after_refund"] {
        let fault = json!({"point": point, "action": "error"});
        server.arm(fault).await;
    }
    let charge = server.charge("pay", &order("o-1")).await;
    assert_eq!(charge.status, 201);
    assert_eq!(server.cancel("other").await.status, 200);
    assert_eq!(server.applied().await, [0, 0, 0]);
}
