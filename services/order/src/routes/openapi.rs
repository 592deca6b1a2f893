//! `GET /openapi.json`.

use axum::Json;
use service_kit::openapi_errors::{BearerScheme, ProblemBody};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use crate::routes::openapi_errors::OrderProblem;
use crate::routes::{
    cancel_order, get_order, get_policy, list_orders, pay_order, place_order, put_order,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "ChargeOnce order API",
        version = "1",
        description = "Orders: a request may be sent any number of times and is placed once."
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
    components(schemas(ProblemBody, OrderProblem)),
    modifiers(&BearerScheme)
)]
struct Api;

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

#[cfg(test)]
mod tests {
    use money::PaymentMethod;
    use serde_json::to_value;

    use super::*;

    #[test]
    fn payment_method_limit_matches_the_type() {
        let document = to_value(Api::openapi()).unwrap();
        for schema in ["OrderRequest", "PaymentRequest"] {
            let pointer = format!("/components/schemas/{schema}/properties/payment_method");
            let property = document.pointer(&pointer).unwrap();
            assert_eq!(property["maxLength"], PaymentMethod::LEN_MAX, "{schema}");
        }
    }
}
