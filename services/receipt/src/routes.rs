//! The table of routes. All of them are for operators: customers do not call this service.

mod error;
mod get_receipt;

use axum::Router;
use axum::routing::get;
use sqlx::PgPool;

pub use error::Error;

/// The routes on the operator listener. A handler that changes something takes an
/// `operators::Operator`, and records an audit row in the transaction of the change.
pub fn operator_table(pool: PgPool) -> Router {
    Router::new()
        .route("/admin/receipts/{order_id}", get(get_receipt::handle))
        .with_state(pool)
}
