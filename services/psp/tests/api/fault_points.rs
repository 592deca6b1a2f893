//! Every action at every point: what the caller sees, and what the books contain.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::{Server, eventually, order};

/// Each point, and the number of charges in the books after a fault there ended the request.
const POINTS: [(&str, i64); 3] = [
    ("before_charge", 0),
    ("during_charge", 0),
    ("after_charge", 1),
];

#[tokio::test]
async fn after_an_error_the_retry_charges_at_most_once() {
    for (point, charged) in POINTS {
        for status in [500, 503, 409, 429] {
            let server = Server::start().await;
            let fault = json!({"point": point, "action": "error", "status": status, "times": 1,
                               "retry_after_seconds": 7});
            server.arm(fault).await;
            let hit = server.charge("k", &order("o-1")).await;
            assert_eq!(hit.status, status, "{point}");
            assert_eq!(hit.retry_after.as_deref(), Some("7"), "{point} {status}");
            assert_eq!(server.charged().await, charged, "{point} {status}");
            let retry = server.charge("k", &order("o-1")).await;
            assert_eq!(
                (retry.status.as_u16(), retry.replayed),
                (201, charged == 1),
                "{point}"
            );
            assert_eq!(server.charged().await, 1);
        }
    }
}

#[tokio::test]
async fn drop_closes_the_connection_without_a_status() {
    for (point, charged) in POINTS {
        let server = Server::start().await;
        server
            .arm(json!({"point": point, "action": "drop", "times": 1}))
            .await;
        let error = server.try_charge("k", &order("o-1")).await.unwrap_err();
        assert!(error.is_request() && error.status().is_none(), "{error:?}");
        assert!(!error.is_timeout() && !error.is_connect(), "{error:?}");
        assert_eq!(server.charged().await, charged, "{point}");
        let retry = server.charge("k", &order("o-1")).await;
        assert_eq!(
            (retry.status.as_u16(), retry.replayed),
            (201, charged == 1),
            "{point}"
        );
        assert_eq!(server.charged().await, 1);
    }
}

#[tokio::test]
async fn drop_sends_no_byte() {
    let server = Server::start().await;
    server
        .arm(json!({"point": "after_charge", "action": "drop", "times": 1}))
        .await;
    let body = order("o-1").to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port))
        .await
        .unwrap();
    let head = format!(
        "POST /v1/charges HTTP/1.1\r\nhost: psp\r\nidempotency-key: k\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
    let mut received = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut received));
    // End of file or a reset: both are a closed connection, and neither is a response.
    let _ = end.await.expect("the connection stayed open");
    assert_eq!(String::from_utf8_lossy(&received), "");
}

#[tokio::test]
async fn delay_charges_before_or_after_the_wait() {
    let delay = Duration::from_millis(1_500);
    for (point, charged) in POINTS {
        let server = Server::start().await;
        let fault = json!({"point": point, "action": "delay", "delay_ms": 1500, "times": 1});
        server.arm(fault).await;
        let body = order("o-1");
        let started = Instant::now();
        let (response, ()) = tokio::join!(server.charge("k", &body), async {
            eventually("the fault applies", async || server.applied().await == [1]).await;
            eventually("the books show it", async || {
                server.charged().await == charged
            })
            .await;
            assert!(
                started.elapsed() < delay,
                "the books were read after the delay, which proves nothing"
            );
        });
        assert!(started.elapsed() >= delay, "{point}");
        assert_eq!(
            (response.status.as_u16(), response.replayed),
            (201, false),
            "{point}"
        );
        assert_eq!(server.charged().await, 1);
    }
}

#[tokio::test]
async fn after_a_hang_the_retry_charges_at_most_once() {
    for (point, charged) in POINTS {
        let server = Server::start().await;
        server
            .arm(json!({"point": point, "action": "hang", "times": 1}))
            .await;
        let body = order("o-1");
        server.abandon("k", &body).await;
        eventually("the books show it", async || {
            server.charged().await == charged
        })
        .await;
        // The caller has hung up, so the key is released, if it was claimed.
        eventually("the retry is charged", async || {
            server.charge("k", &body).await.status == 201
        })
        .await;
        assert_eq!(server.charged().await, 1);
    }
}

#[tokio::test]
async fn key_is_in_flight_only_during_the_charge() {
    for (point, expected) in [
        ("before_charge", 201),
        ("during_charge", 409),
        ("after_charge", 201),
    ] {
        let server = Server::start().await;
        server
            .arm(json!({"point": point, "action": "hang", "times": 1}))
            .await;
        let body = order("o-1");
        let hanging = server.charge("k", &body);
        let second = async {
            eventually("the fault applies", async || server.applied().await == [1]).await;
            if point == "after_charge" {
                eventually("the charge is committed", async || {
                    server.stored().await == 1
                })
                .await;
            }
            // The claim is dropped just after the commit, so another 409 may come before that.
            if expected == 201 {
                eventually("the key is free", async || {
                    server.charge("k", &body).await.status == 201
                })
                .await;
            } else {
                assert_eq!(server.charge("k", &body).await.status, expected);
            }
        };
        tokio::select! {
            response = hanging => panic!("a hang got a response: {response:?}"),
            () = second => {}
        }
    }
}

#[tokio::test]
async fn replays_skip_faults_during_a_charge() {
    let server = Server::start().await;
    server.charge("k", &order("o-1")).await;
    server
        .arm(json!({"point": "during_charge", "action": "error"}))
        .await;
    assert!(server.charge("k", &order("o-1")).await.replayed);
    assert_eq!(server.applied().await, [0]);
}
