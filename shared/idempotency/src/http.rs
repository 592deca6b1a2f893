//! Reads the key from request headers, and writes a stored response as an axum response.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use crate::{Key, MalformedKey, StoredResponse};

pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Set to `true` on a replayed response.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The key of a request. A request must have exactly one.
pub fn key(headers: &HeaderMap) -> Result<Key, MalformedKey> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let value = values.next().ok_or(MalformedKey::Missing)?;
    if values.next().is_some() {
        return Err(MalformedKey::Repeated);
    }
    Key::parse(value.to_str().map_err(|_| MalformedKey::Character)?)
}

/// The response to the first request.
pub fn response(stored: StoredResponse) -> Response {
    let mut response = Response::new(Body::from(stored.body));
    *response.status_mut() =
        StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in stored.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            // Appended: a stored response may have several headers of one name.
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// The same response again, marked as replayed.
pub fn replay(stored: StoredResponse) -> Response {
    let mut response = response(stored);
    let headers = response.headers_mut();
    headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_key_is_required() {
        let mut headers = HeaderMap::new();
        assert_eq!(key(&headers), Err(MalformedKey::Missing));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("\"k-1\""));
        assert_eq!(key(&headers).unwrap().as_str(), "k-1");
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("k-1"));
        assert_eq!(key(&headers), Err(MalformedKey::Repeated));
    }

    #[test]
    fn repeated_headers_survive_a_replay() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let stored = StoredResponse {
            status: 201,
            headers: vec![
                header("link", "</b>; rel=next"),
                header("etag", "1"),
                header("link", "</a>; rel=prev"),
            ],
            body: Vec::new(),
        };
        for response in [response(stored.clone()), replay(stored)] {
            let links: Vec<_> = response.headers().get_all("link").iter().collect();
            assert_eq!(links, ["</b>; rel=next", "</a>; rel=prev"]);
            assert_eq!(response.headers()["etag"], "1");
        }
    }

    #[test]
    fn non_ascii_key_is_malformed() {
        let mut headers = HeaderMap::new();
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(b"k\xff").unwrap());
        assert_eq!(key(&headers), Err(MalformedKey::Character));
    }
}
