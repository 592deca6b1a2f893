//! Turns the provider's result into an HTTP response, or drops the connection.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::domain::api_response::ApiResponse;
use crate::domain::fault::Failure;
use crate::droppable_connection::DropHandle;
use crate::provider::CallerResponse;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The status that metrics show for a request without a response, as web servers log it. Never sent.
const NO_RESPONSE: u16 = 444;

/// The key as the caller sent it, not yet validated.
pub(super) fn key(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(IDEMPOTENCY_KEY).map(HeaderValue::as_bytes)
}

pub(super) fn send(response: CallerResponse, connection: &DropHandle) -> Response {
    match response {
        CallerResponse::New(response) => response.into_response(),
        CallerResponse::Replayed(response) => replayed(response),
        CallerResponse::Failed(failure) => failed(&failure),
        CallerResponse::Dropped => {
            connection.drop_connection();
            StatusCode::from_u16(NO_RESPONSE)
                .unwrap_or_default()
                .into_response()
        }
    }
}

fn replayed(response: ApiResponse) -> Response {
    let mut response = response.into_response();
    let yes = HeaderValue::from_static("true");
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, yes);
    response
}

fn failed(failure: &Failure) -> Response {
    let mut response = ApiResponse::failed(failure).into_response();
    if let Some(seconds) = failure.retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
