//! Bytes that no well-meaning client sends.

use reqwest::Method;
use reqwest::header::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::PATIENCE;
use crate::service::{ACME, KEY, Service, Stored, order, orders_stored, send};

/// Sends the bytes as they are; returns all that comes back.
async fn send_raw(service: &Service, bytes: &[u8]) -> String {
    read_all(write_raw(service, bytes).await).await
}

async fn write_raw(service: &Service, bytes: &[u8]) -> TcpStream {
    let address = ("127.0.0.1", service.port);
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The service may hang up before it has read everything.
    let _ = stream.write_all(bytes).await;
    stream
}

async fn read_all(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the connection was parked");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A post of an order with these header lines and framing.
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
async fn a_header_that_http_forbids_is_refused_and_stores_nothing() {
    let service = Service::start().await;
    for line in [
        "Idempotency-Key: k\0x",
        "Idempotency-Key: k\rx",
        "Idempotency-Key: k-1\r\nno colon here",
        "Idempotency Key: k-1",
        "Idempotency-Key: k-1\r\n folded",
        "Idempotency-Key: k-1\r\nTransfer-Encoding: gzip",
        "Idempotency-Key: k-1\r\nContent-Length: 1",
    ] {
        let answer = send_raw(&service, &with_length(line)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line:?}: {answer}");
    }
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn headers_without_end_are_refused_and_store_nothing() {
    let service = Service::start().await;
    let huge = format!("Idempotency-Key: {}", "k".repeat(2_000_000));
    let many = "X-Filler: 1\r\n".repeat(1_000) + "Idempotency-Key: k-1";
    for lines in [huge, many] {
        let answer = send_raw(&service, &with_length(&lines)).await;
        // The connection may be reset before the answer is read.
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
            "{answer}"
        );
    }
    assert_eq!(service.stored().await, Stored::default());
    service.post("k-1", &order()).await.expect(201);
}

#[tokio::test]
async fn a_key_that_tries_to_smuggle_a_header_stays_one_malformed_key() {
    let service = Service::start().await;
    let answer = send_raw(
        &service,
        &with_length("Idempotency-Key: k%0d%0aX-Evil: 1, k"),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("malformed_idempotency_key"), "{answer}");
    assert!(!answer.to_lowercase().contains("\r\nx-evil"), "{answer}");
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn a_body_that_breaks_off_or_breaks_its_framing_stores_nothing() {
    let service = Service::start().await;
    let chunked = "Idempotency-Key: k-1\r\nTransfer-Encoding: chunked";
    let bad_chunk = raw_post(chunked, &format!("5\r\n{}", order()));
    let answer = send_raw(&service, &bad_chunk).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("malformed_body"), "{answer}");

    let short = "Idempotency-Key: k-1\r\nContent-Length: 5000";
    let short = raw_post(short, &order().to_string());
    let mut stream = write_raw(&service, &short).await;
    stream.shutdown().await.unwrap();
    read_all(stream).await;
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn a_chunked_body_past_the_limit_is_a_problem_like_any_other() {
    let service = Service::start().await;
    let padded = format!(
        "{}{}",
        order(),
        " ".repeat(service_kit::http::BODY_BYTES_MAX)
    );
    let chunked = "Idempotency-Key: k-1\r\nTransfer-Encoding: chunked";
    let body = format!("{:x}\r\n{padded}\r\n0\r\n\r\n", padded.len());
    let answer = send_raw(&service, &raw_post(chunked, &body)).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
    assert!(answer.contains("body_too_large"), "{answer}");
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn garbage_in_context_headers_neither_fails_the_request_nor_comes_back() {
    let service = Service::start().await;
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
        let request = service.request(Method::POST, "/orders").json(&order());
        let request = request
            .header(KEY, format!("k-{number}"))
            .header("x-correlation-id", value.clone())
            .header("traceparent", value);
        let answer = send(request).await;
        let correlation_id = answer.expect(201).header("x-correlation-id").unwrap();
        assert_ne!(correlation_id.as_bytes(), garbage);
        assert!(
            correlation_id.parse::<uuid::Uuid>().is_ok(),
            "{correlation_id}"
        );
    }
    assert_eq!(service.stored().await, orders_stored(garbage.len() as i64));
}
