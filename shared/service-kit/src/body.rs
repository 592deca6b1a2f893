//! Reads a JSON request body within a size limit.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use money::has_card_number;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error as ThisError;

use crate::http::BODY_BYTES_MAX;
use crate::{Problem, json};

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

/// Reads a body that must be JSON, of any shape. A member that is given twice is an error.
pub async fn read_json(headers: &HeaderMap, body: Body) -> Result<Value, Error> {
    if !is_json(headers) {
        return Err(Error::ContentType);
    }
    let bytes = collect(body).await?;
    json::parse(&bytes).map_err(Error::Json)
}

/// Why a body of valid JSON does not have the members that its route takes.
#[derive(Debug, PartialEq, Eq, ThisError)]
pub enum WrongMembers {
    /// The reason quotes the body, so it must not quote a card number.
    #[error("{0}")]
    Shape(String),
    #[error("the body has a card number in the wrong place")]
    CardNumber,
}

/// Reads the members of a body.
pub fn decode<T: DeserializeOwned>(body: Value) -> Result<T, WrongMembers> {
    serde_json::from_value(body).map_err(|error| {
        let reason = error.to_string();
        match has_card_number(&reason) {
            true => WrongMembers::CardNumber,
            false => WrongMembers::Shape(reason),
        }
    })
}

/// The body of an operator's request. Unlike `axum::Json` it applies the rules of [`read_json`].
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let body = read_json(&parts.headers, body).await;
        let body = body.map_err(|error| Problem::from(&error))?;
        decode(body).map(Self).map_err(|error| {
            let detail = format!("The body has the wrong members: {error}.");
            Problem::new(StatusCode::BAD_REQUEST, "invalid_body", detail)
        })
    }
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Payment {
        payment_method: String,
    }

    #[test]
    fn reason_never_quotes_a_card_number() {
        for body in [
            json!({"payment_method": 4_111_111_111_111_111_u64}),
            json!({"payment_method": 4_111_111_111_111_111_f64}),
            json!({"4111 1111 1111 1111": "a"}),
            json!("4111-1111-1111-1111"),
        ] {
            let error = decode::<Payment>(body.clone()).unwrap_err();
            assert_eq!(error, WrongMembers::CardNumber, "{body}");
            assert!(!error.to_string().contains("1111"));
        }
        let other = decode::<Payment>(json!({"payment_method": 7})).unwrap_err();
        assert!(other.to_string().contains("integer `7`"), "{other}");
    }
}
