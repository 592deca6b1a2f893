//! The table of routes: so far only what every service has, added by `service_kit::http::finish`.

use axum::Router;

pub fn table() -> Router {
    Router::new()
}
