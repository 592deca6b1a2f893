//! The table of routes, and what they share.

mod error;
mod get_attempts;
mod list_attempts;
mod list_reports;
mod reconcile;
pub mod view;

use axum::Router;
use axum::routing::get;
use sqlx::PgPool;

use crate::reconciler::Reconciler;

pub use error::Error;

#[derive(Clone)]
pub struct Services {
    pub pool: PgPool,
    pub reconciler: Reconciler,
}

#[rustfmt::skip]
pub fn table(services: Services) -> Router {
    Router::new()
        .route("/admin/payments", get(list_attempts::handle))
        .route("/admin/payments/{order_id}", get(get_attempts::handle))
        .route("/admin/reconciliations", get(list_reports::handle).post(reconcile::handle))
        .with_state(services)
}
