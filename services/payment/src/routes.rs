//! The tables of routes for customers and for operators, and the state that they share.

mod create_payment;
mod error;
mod get_attempts;
mod get_payment;
mod get_policy;
mod list_attempts;
mod list_reports;
mod openapi;
mod openapi_errors;
mod reconcile;
mod resolve;

use api_keys::Authenticator;
use axum::Router;
use axum::routing::{get, post};
use sqlx::PgPool;

use crate::direct::DirectCharges;
use crate::reconciler::Reconciler;

pub use error::Error;

#[derive(Clone)]
pub struct Services {
    pub pool: PgPool,
    pub reconciler: Reconciler,
    pub authenticator: Authenticator,
    pub direct_charges: DirectCharges,
}

/// The routes on the customers' port.
pub fn table(services: Services) -> Router {
    Router::new()
        .route("/payments", post(create_payment::handle))
        .route("/payments/{id}", get(get_payment::handle))
        .route("/idempotency-policy", get(get_policy::handle))
        .route("/openapi.json", get(openapi::handle))
        .with_state(services)
}

/// The routes on the operator listener. A handler that changes something takes an
/// [`operators::Operator`], and records an audit row in the transaction of the change.
#[rustfmt::skip]
pub fn operator_table(services: Services) -> Router {
    Router::new()
        .route("/admin/payments", get(list_attempts::handle))
        .route("/admin/payments/{order_id}", get(get_attempts::handle))
        .route("/admin/payments/{order_id}/attempts/{attempt}/resolution", post(resolve::attempt))
        .route("/admin/refunds/{charge_id}/resolution", post(resolve::refund))
        .route("/admin/unexplained-charges", get(resolve::list_charges))
        .route("/admin/unexplained-charges/{charge_id}", post(resolve::charge))
        .route("/admin/reconciliations", get(list_reports::handle).post(reconcile::handle))
        .with_state(services)
}
