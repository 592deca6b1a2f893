//! How the provider's reply goes over the wire, or does not.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::domain::answer::Answer;
use crate::domain::fault::Failure;
use crate::line::Line;
use crate::provider::Reply;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// What metrics show for a request that got no answer; web servers log it so. Never sent.
const NO_ANSWER: u16 = 444;

/// The key as the caller sent it, not yet looked at.
pub(super) fn key(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(IDEMPOTENCY_KEY).map(HeaderValue::as_bytes)
}

pub(super) fn send(reply: Reply, line: &Line) -> Response {
    match reply {
        Reply::Answered(answer) => answer.into_response(),
        Reply::Replayed(answer) => replayed(answer),
        Reply::Failed(failure) => failed(failure),
        Reply::Silence => {
            line.cut();
            StatusCode::from_u16(NO_ANSWER)
                .unwrap_or_default()
                .into_response()
        }
    }
}

fn replayed(answer: Answer) -> Response {
    let mut response = answer.into_response();
    let yes = HeaderValue::from_static("true");
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, yes);
    response
}

fn failed(failure: Failure) -> Response {
    let mut response = Answer::failed(failure).into_response();
    if let Some(seconds) = failure.retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
