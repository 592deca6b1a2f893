//! Parameters and bodies, with errors in the provider's own shape instead of axum's plain text.

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::Error;

/// The parameters of the query string.
pub(super) struct Parameters<T>(pub(super) T);

/// The body as it was sent, not yet parsed.
pub(super) struct Body(pub(super) Bytes);

impl<T, S> FromRequestParts<S> for Parameters<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(rejection) => Err(Error::Parameters(rejection.body_text())),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|rejection| unreadable(&rejection))
    }
}

fn unreadable(rejection: &BytesRejection) -> Error {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        Error::BodyTooLarge
    } else {
        Error::Parameters(rejection.body_text())
    }
}
