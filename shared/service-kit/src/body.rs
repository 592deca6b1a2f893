//! Reads a JSON request body within a size limit.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use thiserror::Error as ThisError;

use crate::Problem;
use crate::http::BODY_BYTES_MAX;

/// Why the body could not be read.
#[derive(Debug, ThisError)]
pub enum Error {
    #[error("the content type is not JSON")]
    ContentType,
    #[error("the body is too large")]
    TooLarge,
    #[error("the body is incomplete")]
    Incomplete,
    #[error("the body is not JSON")]
    Json(#[source] serde_json::Error),
}

/// Reads a body that must be JSON, of any shape.
pub async fn read_json(headers: &HeaderMap, body: Body) -> Result<Value, Error> {
    if !is_json(headers) {
        return Err(Error::ContentType);
    }
    let bytes = collect(body).await?;
    serde_json::from_slice(&bytes).map_err(Error::Json)
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::ContentType => Self::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "Send the body as application/json.",
            ),
            Error::TooLarge => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                format!(
                    "The body is larger than {} KiB. Send a smaller one.",
                    BODY_BYTES_MAX / 1024
                ),
            ),
            Error::Incomplete => Self::new(
                StatusCode::BAD_REQUEST,
                "malformed_body",
                "The body ended early or has invalid HTTP framing. Send it again.",
            ),
            Error::Json(reason) => Self::new(
                StatusCode::BAD_REQUEST,
                "malformed_json",
                format!("The body is not valid JSON: {reason}."),
            ),
        }
    }
}

async fn collect(body: Body) -> Result<Bytes, Error> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge),
        // The connection ended early, or the HTTP framing is invalid.
        Err(_) => Err(Error::Incomplete),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}
