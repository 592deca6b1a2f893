//! `POST /v1/cancellations`: returns the charge under a key, or cancels the key so that nothing will
//! be charged under it. Naturally idempotent, so the request needs no key.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::response::Response;

use super::extract::Body;
use super::respond;
use crate::Error;
use crate::domain::cancellation::Cancellation;
use crate::droppable_connection::DropHandle;
use crate::provider::Provider;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    ConnectInfo(connection): ConnectInfo<DropHandle>,
    Body(body): Body,
) -> Result<Response, Error> {
    let cancellation = Cancellation::parse(&body)?;
    Ok(respond::send(
        provider.cancel(cancellation).await?,
        &connection,
    ))
}
