//! The document describes the routes that there are, all of them and as they are.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;
use utoipa::openapi::OpenApi;

use crate::service::{Service, order, send};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

async fn document(service: &Service) -> Value {
    service.get("/openapi.json").await.expect(200).json()
}

#[tokio::test]
async fn the_document_parses_and_every_reference_in_it_leads_somewhere() {
    let service = Service::start().await;
    let document = document(&service).await;
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
async fn every_route_of_the_table_is_in_the_document_with_every_method() {
    // A router does not tell its routes, so they are read off the table itself.
    let table = include_str!("../../src/routes.rs");
    let in_table: BTreeSet<&str> = table
        .split(".route(")
        .skip(1)
        .filter_map(|rest| rest.split('"').nth(1))
        .collect();
    let service = Service::start().await;
    let document = document(&service).await;
    let paths = document["paths"].as_object().unwrap();
    let in_document: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    assert_eq!(in_document, in_table);

    for (path, operations) in paths {
        let refused = send(service.request(Method::TRACE, path)).await;
        let allowed = refused.expect(405).header("allow").unwrap().to_lowercase();
        let allowed: BTreeSet<&str> = allowed.split(',').filter(|name| *name != "head").collect();
        let documented: BTreeSet<&str> = METHODS
            .into_iter()
            .filter(|method| operations.get(method).is_some())
            .collect();
        assert_eq!(documented, allowed, "{path}");
    }
}

#[tokio::test]
async fn every_operation_names_its_answers_its_headers_and_who_may_call() {
    let service = Service::start().await;
    let document = document(&service).await;
    let scheme = &document["components"]["securitySchemes"]["bearer"];
    assert_eq!(
        (&scheme["type"], &scheme["scheme"]),
        (&"http".into(), &"bearer".into())
    );
    let (post, put) = ("/paths/~1orders/post", "/paths/~1orders~1{id}/put");
    let (list, get) = ("/paths/~1orders/get", "/paths/~1orders~1{id}/get");
    let cancel = "/paths/~1orders~1{id}/delete";
    let pay = "/paths/~1orders~1{id}~1payments/post";
    let writes = [
        "200", "201", "400", "401", "409", "413", "415", "422", "503",
    ];
    for (operation, statuses) in [
        (post, writes.as_slice()),
        (put, writes.as_slice()),
        (get, &["200", "304", "400", "401", "404", "503"]),
        (list, &["200", "400", "401", "503"]),
        (cancel, &["204", "400", "401", "404", "409", "412", "503"]),
        (
            pay,
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
            assert_eq!(schema, "#/components/schemas/Problem", "{status}");
        }
    }
    let header = |operation: &str, status: &str, name: &str| {
        let pointer = format!("{operation}/responses/{status}/headers/{name}");
        assert!(document.pointer(&pointer).is_some(), "{pointer}");
    };
    header(post, "201", "Location");
    header(post, "201", "Idempotent-Replayed");
    header(post, "409", "Retry-After");
    header(post, "503", "Retry-After");
    header(get, "200", "ETag");
    header(pay, "201", "Location");
    header(pay, "201", "Idempotent-Replayed");
    header(pay, "409", "Retry-After");
    for (operation, name, required) in [
        (post, "Idempotency-Key", true),
        (pay, "Idempotency-Key", true),
        (cancel, "If-Match", false),
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
async fn the_document_says_what_a_204_means_and_names_every_code_of_a_conflict() {
    let service = Service::start().await;
    let document = document(&service).await;
    let text = |pointer: &str| document.pointer(pointer).unwrap().to_string();
    let cancel = text("/paths/~1orders~1{id}/delete");
    for word in [
        "204 means that the wish is stored",
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
async fn the_examples_of_the_document_make_an_order_that_is_taken() {
    let service = Service::start().await;
    let document = document(&service).await;
    let schemas = &document["components"]["schemas"];
    let example = |schema: &str, member: &str| {
        let property = &schemas[schema]["properties"][member];
        property["example"].clone()
    };
    let mut body = order();
    for member in ["customer_id", "currency", "payment_method", "reference"] {
        body[member] = example("Request", member);
    }
    for member in ["sku", "quantity", "unit_price"] {
        body["items"][0][member] = example("RequestItem", member);
    }
    service.post("k-1", &body).await.expect(201);
}
