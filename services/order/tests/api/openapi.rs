//! The OpenAPI document describes every route as it is.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;
use utoipa::openapi::OpenApi;

use crate::harness::{Harness, order, send};

/// The schemas of errors. The second adds the order that the problem names.
const PROBLEMS: [&str; 2] = [
    "#/components/schemas/Problem",
    "#/components/schemas/OrderProblem",
];
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

async fn document(harness: &Harness) -> Value {
    harness.get("/openapi.json").await.expect(200).json()
}

const POST: &str = "/paths/~1orders/post";
const PUT: &str = "/paths/~1orders~1{id}/put";
const LIST: &str = "/paths/~1orders/get";
const GET: &str = "/paths/~1orders~1{id}/get";
const CANCEL: &str = "/paths/~1orders~1{id}/delete";
const PAY: &str = "/paths/~1orders~1{id}~1payments/post";

#[tokio::test]
async fn document_parses_and_all_its_references_resolve() {
    let harness = Harness::start().await;
    let document = document(&harness).await;
    let parsed: OpenApi = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(parsed.paths.paths.len(), 5);
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);
    assert!(references.contains("#/components/schemas/Problem"));
    for reference in references {
        let target = document.pointer(reference.trim_start_matches('#'));
        assert!(target.is_some(), "{reference}");
    }
}

fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_references(item, found)),
        Value::Object(members) => {
            found.extend(
                members
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            members
                .values()
                .for_each(|member| collect_references(member, found));
        }
        _ => {}
    }
}

#[tokio::test]
async fn document_has_every_route_and_method() {
    // A router does not list its routes, so the test reads them from the source.
    let table = include_str!("../../src/routes.rs");
    let in_table: BTreeSet<&str> = table
        .split(".route(")
        .skip(1)
        .filter_map(|rest| rest.split('"').nth(1))
        .collect();
    let harness = Harness::start().await;
    let document = document(&harness).await;
    let paths = document["paths"].as_object().unwrap();
    let in_document: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    assert_eq!(in_document, in_table);

    for (path, operations) in paths {
        let rejected = send(harness.request(Method::TRACE, path)).await;
        let allowed = rejected.expect(405).header("allow").unwrap().to_lowercase();
        let allowed: BTreeSet<&str> = allowed.split(',').filter(|name| *name != "head").collect();
        let documented: BTreeSet<&str> = METHODS
            .into_iter()
            .filter(|method| operations.get(method).is_some())
            .collect();
        assert_eq!(documented, allowed, "{path}");
    }
}

#[tokio::test]
async fn operations_name_responses_and_security() {
    let harness = Harness::start().await;
    let document = document(&harness).await;
    let scheme = &document["components"]["securitySchemes"]["bearer"];
    assert_eq!(
        (&scheme["type"], &scheme["scheme"]),
        (&"http".into(), &"bearer".into())
    );
    let writes = [
        "200", "201", "400", "401", "409", "413", "415", "422", "503",
    ];
    for (operation, statuses) in [
        (POST, writes.as_slice()),
        (PUT, writes.as_slice()),
        (GET, &["200", "304", "400", "401", "404", "503"]),
        (LIST, &["200", "400", "401", "503"]),
        (CANCEL, &["204", "400", "401", "404", "409", "412", "503"]),
        (
            PAY,
            &[
                "201", "400", "401", "404", "409", "413", "415", "422", "503",
            ],
        ),
    ] {
        let operation = document.pointer(operation).unwrap();
        assert_eq!(operation["security"], serde_json::json!([{"bearer": []}]));
        let responses = operation["responses"].as_object().unwrap();
        let documented: Vec<&str> = responses.keys().map(String::as_str).collect();
        assert_eq!(documented, statuses);
        for (status, response) in responses
            .iter()
            .filter(|(status, _)| status.as_str() >= "400")
        {
            let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
            let schema = schema.as_str().unwrap();
            assert!(PROBLEMS.contains(&schema), "{status}: {schema}");
        }
    }
}

#[tokio::test]
async fn operations_name_their_headers() {
    let harness = Harness::start().await;
    let document = document(&harness).await;
    let header = |operation: &str, status: &str, name: &str| {
        let pointer = format!("{operation}/responses/{status}/headers/{name}");
        assert!(document.pointer(&pointer).is_some(), "{pointer}");
    };
    header(POST, "201", "Location");
    header(POST, "201", "Idempotent-Replayed");
    header(POST, "409", "Retry-After");
    header(POST, "503", "Retry-After");
    header(GET, "200", "ETag");
    header(PAY, "201", "Location");
    header(PAY, "201", "Idempotent-Replayed");
    header(PAY, "409", "Retry-After");
    let conflict = "responses/409/content/application~1problem+json/schema/$ref";
    for operation in [POST, PUT, PAY] {
        let schema = document.pointer(&format!("{operation}/{conflict}"));
        assert_eq!(schema, Some(&PROBLEMS[1].into()), "{operation}");
    }
    for (operation, name, required) in [
        (POST, "Idempotency-Key", true),
        (PAY, "Idempotency-Key", true),
        (CANCEL, "If-Match", false),
    ] {
        let parameters = &document.pointer(operation).unwrap()["parameters"];
        let mut parameters = parameters.as_array().unwrap().iter();
        let header = parameters.find(|parameter| parameter["name"] == name);
        let header = header.unwrap_or_else(|| panic!("{name} of {operation}"));
        assert_eq!(
            (&header["in"], &header["required"]),
            (&"header".into(), &required.into())
        );
    }
}

#[tokio::test]
async fn problem_with_an_order_extends_the_common_problem() {
    let harness = Harness::start().await;
    let document = document(&harness).await;
    let schema = &document["components"]["schemas"]["OrderProblem"];
    let parts = schema["allOf"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["$ref"] == PROBLEMS[0]));
    let members = parts.iter().find_map(|part| part["properties"].as_object());
    let members: Vec<&String> = members.unwrap().keys().collect();
    assert_eq!(members, ["order_id", "order_url"]);
}

#[tokio::test]
async fn document_explains_204_and_names_conflict_codes() {
    let harness = Harness::start().await;
    let document = document(&harness).await;
    let text = |pointer: &str| document.pointer(pointer).unwrap().to_string();
    let cancel = text("/paths/~1orders~1{id}/delete");
    for word in [
        "204 means that the cancellation request is stored",
        "`cancelled`",
        "`refunded`",
        "`shipped` if it was too late",
        "order_shipped",
        "precondition_failed",
    ] {
        assert!(cancel.contains(word), "{word}: {cancel}");
    }
    let pay = text("/paths/~1orders~1{id}~1payments/post");
    for code in [
        "payment_open",
        "already_paid",
        "order_cancelled",
        "idempotency_key_in_flight",
        "idempotency_key_reused",
        "invalid_payment",
    ] {
        assert!(pay.contains(code), "{code}: {pay}");
    }
}

#[tokio::test]
async fn examples_of_the_document_form_a_valid_order() {
    let harness = Harness::start().await;
    let document = document(&harness).await;
    let schemas = &document["components"]["schemas"];
    let example = |schema: &str, member: &str| {
        let property = &schemas[schema]["properties"][member];
        property["example"].clone()
    };
    let mut body = order();
    for member in ["customer_id", "currency", "payment_method", "reference"] {
        body[member] = example("OrderRequest", member);
    }
    for member in ["sku", "quantity", "unit_price"] {
        body["items"][0][member] = example("OrderRequestItem", member);
    }
    harness.post("k-1", &body).await.expect(201);
}
