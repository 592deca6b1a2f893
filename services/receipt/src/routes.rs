//! The table of routes. All of them are for operators.

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
pub struct Operator {
    pub pool: PgPool,
    /// Wakes the sender.
    pub due: Arc<Notify>,
}

/// The routes under `/admin`.
pub fn operator(operator: Operator) -> Router {
    Router::new()
        .route("/admin/receipts/{order_id}", get(get_receipt::handle))
        .route("/admin/mails", get(mails::list))
        .route("/admin/mails/release", post(mails::release))
        .route("/admin/mails/resolve", post(mails::resolve))
        .with_state(operator)
}
