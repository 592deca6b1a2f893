//! The table of routes.

mod error;
mod get_receipt;

use axum::Router;
use axum::routing::get;
use sqlx::PgPool;

pub use error::Error;

pub fn table(pool: PgPool) -> Router {
    Router::new()
        .route("/admin/receipts/{order_id}", get(get_receipt::handle))
        .with_state(pool)
}
