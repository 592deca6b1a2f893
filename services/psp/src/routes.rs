//! The tables of routes for merchants and for operators.

mod charge_view;
mod clear_faults;
mod create_cancellation;
mod create_charge;
mod create_fault;
mod create_refund;
mod extract;
mod get_charge;
mod list_charges;
mod list_faults;
mod list_ledger;
mod list_refund_ledger;
mod list_refunds;
mod page;
mod respond;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};

use operators::Tokens;

use crate::provider::Provider;
use crate::timeline;

/// The routes on the merchants' port.
#[rustfmt::skip]
pub fn table(provider: Arc<Provider>) -> Router {
    let pool = provider.pool.clone();
    let routes = Router::new()
        .route("/v1/charges", post(create_charge::handle).get(list_charges::handle))
        .route("/v1/charges/{id}", get(get_charge::handle))
        .route("/v1/refunds", post(create_refund::handle).get(list_refunds::handle))
        .route("/v1/cancellations", post(create_cancellation::handle))
        .route("/v1/ledger", get(list_ledger::handle))
        .route("/v1/ledger/refunds", get(list_refund_ledger::handle))
        .with_state(provider);
    service_kit::http::finish(routes, pool)
}

/// The routes on the operator listener.
#[rustfmt::skip]
pub fn operator_table(provider: Arc<Provider>, tokens: Tokens) -> Router {
    let pool = provider.pool.clone();
    let routes = Router::new()
        .route("/admin/faults", post(create_fault::handle).get(list_faults::handle).delete(clear_faults::all))
        .route("/admin/faults/{id}", delete(clear_faults::one))
        .with_state(provider);
    let routes = routes.merge(operators::timeline(pool.clone(), timeline::Reader));
    operators::finish(routes, tokens, pool)
}
