//! `POST /v1/cancellations`: what was charged under a key, or, if nothing, the promise that nothing
//! will be. Idempotent by its nature, so it needs no key of its own.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use bytes::Bytes;

use super::reply;
use crate::Error;
use crate::domain::cancellation::Cancellation;
use crate::line::Line;
use crate::provider::Provider;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    ConnectInfo(line): ConnectInfo<Line>,
    body: Bytes,
) -> Result<Response, Error> {
    let cancellation = Cancellation::parse(&body)?;
    Ok(reply::send(provider.cancel(cancellation).await?, &line))
}
