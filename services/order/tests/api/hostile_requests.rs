//! Malformed and hostile HTTP requests.

use reqwest::Method;
use reqwest::header::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::PATIENCE;
use crate::harness::{ACME, Harness, KEY, Stored, order, orders_stored, send};

/// Sends the bytes unchanged; returns everything that the service sends back.
async fn send_raw(harness: &Harness, bytes: &[u8]) -> String {
    read_all(write_raw(harness, bytes).await).await
}

async fn write_raw(harness: &Harness, bytes: &[u8]) -> TcpStream {
    let address = ("127.0.0.1", harness.port);
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The service may close the connection before it has read everything.
    let _ = stream.write_all(bytes).await;
    stream
}

async fn read_all(mut stream: TcpStream) -> String {
    let mut response = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut response)).await;
    assert!(read.is_ok(), "the connection stayed open");
    String::from_utf8_lossy(&response).into_owned()
}

/// A `POST` of an order with these header lines.
fn raw_post(header_lines: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /orders HTTP/1.1\r\nHost: order\r\nConnection: close\r\n\
         Authorization: Bearer {ACME}\r\nContent-Type: application/json\r\n\
         {header_lines}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn with_length(header_lines: &str) -> Vec<u8> {
    let body = order().to_string();
    raw_post(
        &format!("{header_lines}\r\nContent-Length: {}", body.len()),
        &body,
    )
}

#[tokio::test]
async fn forbidden_header_is_rejected_and_stores_nothing() {
    let harness = Harness::start().await;
    for line in [
        "Idempotency-Key: k\0x",
        "Idempotency-Key: k\rx",
        "Idempotency-Key: k-1\r\nno colon here",
        "Idempotency Key: k-1",
        "Idempotency-Key: k-1\r\n folded",
        "Idempotency-Key: k-1\r\nTransfer-Encoding: gzip",
        "Idempotency-Key: k-1\r\nContent-Length: 1",
    ] {
        let response = send_raw(&harness, &with_length(line)).await;
        assert!(
            response.starts_with("HTTP/1.1 400 "),
            "{line:?}: {response}"
        );
    }
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn endless_headers_are_rejected_and_store_nothing() {
    let harness = Harness::start().await;
    let huge = format!("Idempotency-Key: {}", "k".repeat(2_000_000));
    let many = "X-Filler: 1\r\n".repeat(1_000) + "Idempotency-Key: k-1";
    for lines in [huge, many] {
        let response = send_raw(&harness, &with_length(&lines)).await;
        // The connection may be reset before the response is read.
        assert!(
            response.is_empty() || response.starts_with("HTTP/1.1 431 "),
            "{response}"
        );
    }
    assert_eq!(harness.stored().await, Stored::default());
    harness.post("k-1", &order()).await.expect(201);
}

#[tokio::test]
async fn header_smuggled_in_a_key_is_one_malformed_key() {
    let harness = Harness::start().await;
    let response = send_raw(
        &harness,
        &with_length("Idempotency-Key: k%0d%0aX-Evil: 1, k"),
    )
    .await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    assert!(response.contains("malformed_idempotency_key"), "{response}");
    assert!(
        !response.to_lowercase().contains("\r\nx-evil"),
        "{response}"
    );
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn truncated_or_badly_framed_body_stores_nothing() {
    let harness = Harness::start().await;
    let chunked = "Idempotency-Key: k-1\r\nTransfer-Encoding: chunked";
    let bad_chunk = raw_post(chunked, &format!("5\r\n{}", order()));
    let response = send_raw(&harness, &bad_chunk).await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    assert!(response.contains("malformed_body"), "{response}");

    let short = "Idempotency-Key: k-1\r\nContent-Length: 5000";
    let short = raw_post(short, &order().to_string());
    let mut stream = write_raw(&harness, &short).await;
    stream.shutdown().await.unwrap();
    read_all(stream).await;
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn chunked_body_above_the_limit_is_too_large() {
    let harness = Harness::start().await;
    let padded = format!(
        "{}{}",
        order(),
        " ".repeat(service_kit::http::BODY_BYTES_MAX)
    );
    let chunked = "Idempotency-Key: k-1\r\nTransfer-Encoding: chunked";
    let body = format!("{:x}\r\n{padded}\r\n0\r\n\r\n", padded.len());
    let response = send_raw(&harness, &raw_post(chunked, &body)).await;
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
    assert!(response.contains("application/problem+json"), "{response}");
    assert!(response.contains("body_too_large"), "{response}");
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn garbage_in_context_headers_is_ignored() {
    let harness = Harness::start().await;
    let long = "x".repeat(10_000);
    let garbage: [&[u8]; 6] = [
        b"",
        b"a b",
        b"\xff\xfe",
        b"a\tb",
        "'; drop table orders".as_bytes(),
        long.as_bytes(),
    ];
    for (number, garbage) in garbage.into_iter().enumerate() {
        let value = HeaderValue::from_bytes(garbage).unwrap();
        let request = harness.request(Method::POST, "/orders").json(&order());
        let request = request
            .header(KEY, format!("k-{number}"))
            .header("x-correlation-id", value.clone())
            .header("traceparent", value);
        let response = send(request).await;
        let correlation_id = response.expect(201).header("x-correlation-id").unwrap();
        assert_ne!(correlation_id.as_bytes(), garbage);
        assert!(
            correlation_id.parse::<uuid::Uuid>().is_ok(),
            "{correlation_id}"
        );
    }
    assert_eq!(harness.stored().await, orders_stored(garbage.len() as i64));
}

/// Every label value is a series that the process keeps until it ends.
#[tokio::test]
async fn invented_methods_share_one_series() {
    // Only this test of the binary reads metrics, so only it sets them up.
    telemetry::metric::init().unwrap();
    let harness = Harness::start().await;
    for number in 0..50 {
        let method = Method::from_bytes(format!("INVENTED{number}").as_bytes()).unwrap();
        for path in ["/orders", "/nothing-here"] {
            send(harness.anonymous(method.clone(), path)).await;
        }
    }
    let metrics = send(harness.anonymous(Method::GET, "/metrics")).await;
    let text = String::from_utf8(metrics.expect(200).body.clone()).unwrap();
    assert!(!text.contains("INVENTED"), "{text}");
    let series = |route: &str, status: u16| {
        format!(r#"http_requests_total{{method="_OTHER",route="{route}",status="{status}"}} 50"#)
    };
    for line in [series("/orders", 405), series("unmatched", 404)] {
        assert!(text.lines().any(|other| other == line), "{line} in {text}");
    }
}
