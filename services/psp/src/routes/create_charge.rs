//! `POST /v1/charges`: charges once per key, within the key's window.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::extract::Body;
use super::respond;
use crate::Error;
use crate::domain::request::Request;
use crate::droppable_connection::DropHandle;
use crate::provider::Provider;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    ConnectInfo(connection): ConnectInfo<DropHandle>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Error> {
    let request = Request::charge(respond::key(&headers), &body)?;
    Ok(respond::send(provider.serve(request).await?, &connection))
}
