//! `POST /v1/refunds`: gives the money of a charge back, once per key, within the key's window.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;

use super::reply;
use crate::Error;
use crate::domain::request::Request;
use crate::line::Line;
use crate::provider::Provider;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Error> {
    let request = Request::refund(reply::key(&headers), &body)?;
    Ok(reply::send(provider.serve(request).await?, &line))
}
