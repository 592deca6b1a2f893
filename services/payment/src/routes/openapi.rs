//! `GET /openapi.json`: what callers may use; the operator's routes are not in it.

use axum::Json;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::routes::{create_payment, get_payment, get_policy, refusal};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "ChargeOnce payment API",
        version = "1",
        description = "Direct charges that can be asked for any number of times and are made once."
    ),
    paths(create_payment::handle, get_payment::handle, get_policy::handle, handle),
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
                "An API key. It names the principal who owns the payments.",
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
