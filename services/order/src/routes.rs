//! The table of routes, and what they share.

mod cancel_order;
mod error;
mod get_order;
mod get_policy;
mod if_match;
mod list_orders;
mod openapi;
mod openapi_errors;
mod pay_order;
mod place_order;
mod put_order;
mod request;
mod view;

use std::sync::Arc;

use api_keys::Authenticator;
use axum::Router;
use axum::routing::{get, post};
use sqlx::PgPool;

use crate::admission::Admission;
use crate::intake::Intake;

pub use error::Error;

#[derive(Clone)]
pub struct Services {
    pub pool: PgPool,
    pub authenticator: Authenticator,
    pub intake: Intake,
    pub admission: Arc<Admission>,
    pub wake: outbox::Wake,
    pub key_window_seconds: u64,
}

/// Routes that require an `Idempotency-Key`.
pub const KEYED_ROUTES: &[&str] = &[place_order::ROUTE, pay_order::ROUTE];

pub fn table(services: Services) -> Router {
    Router::new()
        .route(
            "/orders",
            post(place_order::handle).get(list_orders::handle),
        )
        .route(
            "/orders/{id}",
            get(get_order::handle)
                .put(put_order::handle)
                .delete(cancel_order::handle),
        )
        .route("/orders/{id}/payments", post(pay_order::handle))
        .route("/idempotency-policy", get(get_policy::handle))
        .route("/openapi.json", get(openapi::handle))
        .with_state(services)
}
