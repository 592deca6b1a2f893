//! The table of routes. All of them are for operators: customers do not call this service.

mod error;
mod get_receipt;
mod mails;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use sqlx::PgPool;
use tokio::sync::Notify;

pub use error::Error;

/// What the operator routes work on.
#[derive(Clone)]
pub struct Services {
    pub pool: PgPool,
    /// Wakes the sender.
    pub due: Arc<Notify>,
}

/// The routes on the operator listener. A handler that changes something takes an
/// `operators::Operator`, and records an audit row in the transaction of the change.
pub fn operator_table(services: Services) -> Router {
    Router::new()
        .route("/admin/receipts/{order_id}", get(get_receipt::handle))
        .route("/admin/mails", get(mails::list))
        .route("/admin/mails/release", post(mails::release))
        .route("/admin/mails/settle", post(mails::settle))
        .route("/admin/mails/resolve", post(mails::resolve))
        .with_state(services)
}
