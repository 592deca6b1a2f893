//! The provider: a mock server, the responses that tests mount on it, and the requests that it got.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::fault_proxy::FaultProxy;
use uuid::Uuid;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockBuilder, MockServer, Request, ResponseTemplate};

fn charges() -> MockBuilder {
    Mock::given(method("POST")).and(path("/v1/charges"))
}

fn refunds() -> MockBuilder {
    Mock::given(method("POST")).and(path("/v1/refunds"))
}

/// Captures. The id of the charge depends only on the order, as a repeated key would get it.
pub(crate) fn captured(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let id = format!("ch_{}", body["reference"].as_str().unwrap());
    ResponseTemplate::new(201).set_body_json(entry(request, &id, "captured"))
}

/// A charge or a refund as the provider shows it: what the request asked for, under its key.
fn entry(request: &Request, id: &str, status: &str) -> Value {
    let mut entry: Value = request.body_json().unwrap();
    if entry["currency"].is_null() {
        entry["currency"] = json!("USD");
    }
    entry["id"] = json!(id);
    entry["status"] = json!(status);
    entry["idempotency_key"] = json!(request.headers["idempotency-key"].to_str().unwrap());
    entry
}

/// A charge of the order as lookups show it.
pub(crate) fn charge_of(order_id: Uuid, id: &str, key: &str) -> Value {
    json!({
        "id": id, "status": "captured", "reference": order_id, "amount": 5_000, "currency": "USD",
        "idempotency_key": key, "refunds": [],
    })
}

pub(crate) fn declined(code: &str) -> ResponseTemplate {
    error(402, code)
}

pub(crate) fn error(status: u16, code: &str) -> ResponseTemplate {
    let body = json!({ "error": { "code": code, "message": "no" } });
    ResponseTemplate::new(status).set_body_json(body)
}

/// Every charge is captured.
pub(crate) async fn mount_captures(psp: &MockServer) {
    charges().respond_with(captured).mount(psp).await;
}

/// Every charge gets the response that this function makes.
pub(crate) async fn mount_charges(
    psp: &MockServer,
    respond: impl Fn(&Request) -> ResponseTemplate + Send + Sync + 'static,
) {
    charges().respond_with(respond).mount(psp).await;
}

/// A provider that captures every charge. Its responses are held until the test releases them: no timer ends a
/// call.
pub(crate) async fn held_captures(psp: &MockServer) -> FaultProxy {
    mount_captures(psp).await;
    let provider = FaultProxy::to(&psp.uri()).await.unwrap();
    provider.hold();
    provider
}

/// Every charge is captured after a delay.
pub(crate) async fn mount_slow_captures(psp: &MockServer, delay: Duration) {
    let slowly = move |request: &Request| captured(request).set_delay(delay);
    charges().respond_with(slowly).mount(psp).await;
}

/// Every charge gets this response.
pub(crate) async fn mount_charge_response(psp: &MockServer, response: ResponseTemplate) {
    charges().respond_with(response).mount(psp).await;
}

/// The first charges get this response. Mount the response to later ones after it.
pub(crate) async fn mount_first_charge_responses(
    psp: &MockServer,
    times: u64,
    response: ResponseTemplate,
) {
    let first = charges().respond_with(response).up_to_n_times(times);
    first.mount(psp).await;
}

/// The provider resets the connection of the first charge without a response.
pub(crate) async fn mount_first_reset(psp: &MockServer) {
    let reset = |_: &Request| io::Error::from(io::ErrorKind::ConnectionReset);
    let first = charges().respond_with_err(reset).up_to_n_times(1);
    first.mount(psp).await;
}

/// Key and body of each call that the provider received, in the order of arrival.
pub(crate) async fn calls(psp: &MockServer) -> Vec<(String, Value)> {
    let requests = psp.received_requests().await.unwrap();
    let call = |request: &Request| {
        let key = request.headers["idempotency-key"].to_str().unwrap();
        (key.to_owned(), request.body_json().unwrap())
    };
    requests.iter().map(call).collect()
}

pub(crate) async fn call_count(psp: &MockServer) -> usize {
    psp.received_requests().await.unwrap().len()
}

/// The key and the body that every call for the attempt must have.
pub(crate) fn expected_call(order_id: Uuid, attempt: i32) -> (String, Value) {
    let reference = match attempt {
        0 => format!("direct:{order_id}"),
        _ => order_id.to_string(),
    };
    let body = json!({
        "reference": reference,
        "amount": 5_000,
        "currency": "USD",
        "payment_method": "pm_card_ok",
    });
    (format!("pay:{order_id}:{attempt}"), body)
}

/// The bodies of the requests with this method and path, in the order of arrival.
pub(crate) async fn request_bodies(psp: &MockServer, verb: &str, at: &str) -> Vec<Value> {
    let requests = psp.received_requests().await.unwrap();
    let matching = requests
        .iter()
        .filter(|it| it.method.as_str() == verb && it.url.path() == at);
    matching
        .map(|it| it.body_json().unwrap_or_default())
        .collect()
}

/// Every lookup of a charge returns this list, by key and by reference.
pub(crate) async fn mount_look_up(psp: &MockServer, charges: Value) {
    let found = ResponseTemplate::new(200).set_body_json(json!({ "data": charges }));
    let look_up = Mock::given(method("GET")).and(path("/v1/charges"));
    look_up.respond_with(found).mount(psp).await;
}

/// Every lookup of a refund returns this list, by key and by charge.
pub(crate) async fn mount_refund_look_up(psp: &MockServer, refunds: Value) {
    let found = ResponseTemplate::new(200).set_body_json(json!({ "data": refunds }));
    let look_up = Mock::given(method("GET")).and(path("/v1/refunds"));
    look_up.respond_with(found).mount(psp).await;
}

/// Every cancellation of a key gets this response.
pub(crate) async fn mount_cancellation(psp: &MockServer, response: ResponseTemplate) {
    let cancel = Mock::given(method("POST")).and(path("/v1/cancellations"));
    cancel.respond_with(response).mount(psp).await;
}

/// The response to a cancellation of an unused key.
pub(crate) fn key_cancelled() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({ "key": "k", "status": "cancelled" }))
}

/// The response to a cancellation of a key that was charged.
pub(crate) fn key_was_charged(order_id: Uuid, charge_id: &str) -> ResponseTemplate {
    let charge = charge_of(order_id, charge_id, "k");
    ResponseTemplate::new(200)
        .set_body_json(json!({ "key": "k", "status": "captured", "charge": charge }))
}

/// Every refund succeeds. Its id depends only on the charge, as a repeated key would get it.
pub(crate) async fn mount_refunds(psp: &MockServer) {
    let refunded = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let id = format!("re_{}", body["charge_id"].as_str().unwrap());
        ResponseTemplate::new(201).set_body_json(entry(request, &id, "refunded"))
    };
    refunds().respond_with(refunded).mount(psp).await;
    mount_refund_look_up(psp, json!([])).await;
}

/// The first refunds get this response.
pub(crate) async fn mount_first_refund_responses(
    psp: &MockServer,
    times: u64,
    response: ResponseTemplate,
) {
    let first = refunds().respond_with(response).up_to_n_times(times);
    first.mount(psp).await;
}
