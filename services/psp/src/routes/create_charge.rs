//! `POST /v1/charges`: takes the money once per key, within the key's window.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use crate::Error;
use crate::charging::{Provider, Reply};
use crate::domain::answer::Answer;
use crate::domain::fault::Failure;
use crate::domain::request::Request;
use crate::line::Line;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// What metrics show for a request that got no answer; web servers log it so. Never sent.
const NO_ANSWER: u16 = 444;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Error> {
    let key = headers.get(IDEMPOTENCY_KEY).map(HeaderValue::as_bytes);
    let request = Request::parse(key, &body)?;
    Ok(match provider.serve(request).await? {
        Reply::Answered(answer) => answer.into_response(),
        Reply::Replayed(answer) => replayed(answer),
        Reply::Failed(failure) => failed(failure),
        Reply::Silence => {
            line.cut();
            StatusCode::from_u16(NO_ANSWER)
                .unwrap_or_default()
                .into_response()
        }
    })
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
