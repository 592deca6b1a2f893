//! `GET /openapi.json`.

use axum::Json;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::routes::{
    cancel_order, get_order, get_policy, list_orders, pay_order, place_order, put_order, refusal,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "ChargeOnce order API",
        version = "1",
        description = "Orders that can be sent any number of times and are placed once."
    ),
    paths(
        place_order::handle,
        put_order::handle,
        get_order::handle,
        cancel_order::handle,
        pay_order::handle,
        list_orders::handle,
        get_policy::handle,
        handle
    ),
    components(schemas(refusal::ProblemBody)),
    modifiers(&Bearer)
)]
struct Api;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key. It names the principal who owns the orders.",
            ))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "get_openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object))
)]
pub(super) async fn handle() -> Json<Document> {
    Json(Api::openapi())
}
