//! `GET /openapi.json`: the API for clients, without the operators' routes.

use axum::Json;
use service_kit::openapi_errors::{BearerScheme, ProblemBody};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;

use crate::routes::openapi_errors::PaymentProblem;
use crate::routes::{create_payment, get_payment, get_policy};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "ChargeOnce payment API",
        version = "1",
        description = "Direct charges: a request may be sent any number of times and is charged once."
    ),
    paths(create_payment::handle, get_payment::handle, get_policy::handle, handle),
    components(schemas(ProblemBody, PaymentProblem)),
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
        let property = "/components/schemas/DirectChargeRequest/properties/payment_method";
        let property = document.pointer(property).unwrap();
        assert_eq!(property["maxLength"], PaymentMethod::LEN_MAX);
    }

    #[test]
    fn all_schema_references_resolve() {
        let document = to_value(Api::openapi()).unwrap();
        let text = document.to_string();
        let references: Vec<&str> = text
            .split("\"$ref\":\"#")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert!(references.contains(&"/components/schemas/PaymentProblem"));
        for reference in references {
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
    }
}
