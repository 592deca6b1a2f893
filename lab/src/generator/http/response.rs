//! Parses a response from the bytes received so far.

use std::io;
use std::time::Duration;

use uuid::Uuid;

const UUID_TEXT_BYTES: usize = 36;

/// The parts of a response that the load generator needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) replayed: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) order_id: Option<Uuid>,
}

impl Response {
    /// Whether the same key must be sent again. A 409 without Retry-After is a definite conflict.
    pub(crate) fn is_retryable(&self) -> bool {
        self.status >= 500 || (matches!(self.status, 409 | 429) && self.retry_after.is_some())
    }
}

/// The response in `bytes`, or `None` while part of it is missing.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<Response>> {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head =
        std::str::from_utf8(&bytes[..head_end]).map_err(|_| invalid("the head is not text"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| invalid("no status line"))?;
    let mut response = Response {
        status,
        replayed: false,
        retry_after: None,
        order_id: None,
    };
    let mut body_bytes = None;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.parse::<usize>().ok();
        } else if name.eq_ignore_ascii_case("idempotent-replayed") {
            response.replayed = value == "true";
        } else if name.eq_ignore_ascii_case("retry-after") {
            response.retry_after = value.parse().ok().map(Duration::from_secs);
        }
    }
    let body_bytes = body_bytes.ok_or_else(|| invalid("no content-length"))?;
    let body = &bytes[head_end + 4..];
    if body.len() < body_bytes {
        return Ok(None);
    }
    response.order_id = order_id(body);
    Ok(Some(response))
}

/// Finds the id without parsing the whole document: the generator's CPU time affects the measurement.
fn order_id(body: &[u8]) -> Option<Uuid> {
    const MEMBER: &[u8] = b"\"order_id\":\"";
    let at = body
        .windows(MEMBER.len())
        .position(|window| window == MEMBER)?
        + MEMBER.len();
    Uuid::try_parse_ascii(body.get(at..at + UUID_TEXT_BYTES)?).ok()
}

pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &str = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nIdempotent-Replayed: true\r\n\
        Content-Length: 75\r\n\r\n{\"order_id\":\"6f2a2c8e-43b6-4b8e-9a52-0a4f0f7c1d11\",\"status\":\"placed\",\"a\":1}";

    #[test]
    fn response_is_parsed_only_when_complete() {
        for length in 0..RESPONSE.len() {
            assert_eq!(
                parse(&RESPONSE.as_bytes()[..length]).unwrap(),
                None,
                "cut at {length}"
            );
        }
        let response = parse(RESPONSE.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (response.status, response.replayed, response.retry_after),
            (201, true, None)
        );
        assert_eq!(
            response.order_id.unwrap().to_string(),
            "6f2a2c8e-43b6-4b8e-9a52-0a4f0f7c1d11"
        );
    }

    #[test]
    fn key_in_flight_has_retry_after() {
        let response =
            parse(b"HTTP/1.1 409 Conflict\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}")
                .unwrap()
                .unwrap();
        assert_eq!(response.retry_after, Some(Duration::from_secs(1)));
        assert_eq!(response.order_id, None);
    }

    #[test]
    fn response_of_unknown_length_is_an_error() {
        assert!(parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }
}
