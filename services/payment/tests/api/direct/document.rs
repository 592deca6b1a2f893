//! The documents about the API that clients can read.

use std::collections::BTreeSet;

use serde_json::json;
use utoipa::openapi::OpenApi;

use super::NO_WAIT;
use crate::api_client::charge;
use crate::api_server::ApiServer;
use crate::harness::Harness;

#[tokio::test]
async fn policy_is_machine_readable() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let policy = server.client.get("/idempotency-policy").await;
    let policy = policy.expect(200).json();
    assert_eq!(policy["window_seconds"], 3_600);
    assert_eq!(policy["routes"], json!(["POST /payments"]));
}

#[tokio::test]
async fn document_has_every_client_route_and_no_other() {
    // A router does not list its routes, so the test reads them from the source of the table.
    let table = include_str!("../../../src/routes.rs");
    let in_table: BTreeSet<&str> = table
        .split(".route(")
        .skip(1)
        .filter_map(|rest| rest.split('"').nth(1))
        .filter(|path| !path.starts_with("/admin/"))
        .collect();
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let document = server.client.get("/openapi.json").await.expect(200).json();
    let parsed: OpenApi = serde_json::from_value(document.clone()).unwrap();
    let in_document: BTreeSet<&str> = parsed.paths.paths.keys().map(String::as_str).collect();
    assert_eq!(in_document, in_table);

    let post = document.pointer("/paths/~1payments/post").unwrap();
    let responses = post["responses"].as_object().unwrap();
    let statuses: Vec<&str> = responses.keys().map(String::as_str).collect();
    let expected = [
        "200", "201", "202", "400", "401", "402", "409", "413", "415", "422", "503",
    ];
    assert_eq!(statuses, expected);
    for (name, at) in [
        ("Retry-After", "202"),
        ("Retry-After", "409"),
        ("Location", "201"),
    ] {
        assert!(responses[at]["headers"][name].is_object(), "{name} of {at}");
    }
}

#[tokio::test]
async fn examples_of_the_document_are_a_valid_payment() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let document = server.client.get("/openapi.json").await.expect(200).json();
    let properties = &document["components"]["schemas"]["DirectChargeRequest"]["properties"];
    let mut body = charge();
    for member in ["amount", "currency", "payment_method", "reference"] {
        body[member] = properties[member]["example"].clone();
        assert!(!body[member].is_null(), "{member}");
    }
    server.client.post("k-1", &body).await.expect(202);
}
