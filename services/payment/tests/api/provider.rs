//! The provider's side: what it answers, and what it was asked.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockBuilder, MockServer, Request, ResponseTemplate};

fn charges() -> MockBuilder {
    Mock::given(method("POST")).and(path("/v1/charges"))
}

/// The same charge whenever it is asked for one order, as behind a key.
pub(crate) fn captured(request: &Request) -> ResponseTemplate {
    let body: Value = request.body_json().unwrap();
    let id = format!("ch_{}", body["reference"].as_str().unwrap());
    ResponseTemplate::new(201).set_body_json(json!({ "id": id, "status": "captured" }))
}

pub(crate) fn declined(code: &str) -> ResponseTemplate {
    ResponseTemplate::new(402).set_body_json(json!({ "error": { "code": code, "message": "no" } }))
}

pub(crate) async fn captures(psp: &MockServer) {
    charges().respond_with(captured).mount(psp).await;
}

/// Answers, but takes its time.
pub(crate) async fn captures_slowly(psp: &MockServer, delay: Duration) {
    let slowly = move |request: &Request| captured(request).set_delay(delay);
    charges().respond_with(slowly).mount(psp).await;
}

pub(crate) async fn answers(psp: &MockServer, answer: ResponseTemplate) {
    charges().respond_with(answer).mount(psp).await;
}

/// Answers so for the first calls only; mount what comes after it next.
pub(crate) async fn first_answers(psp: &MockServer, times: u64, answer: ResponseTemplate) {
    let first = charges().respond_with(answer).up_to_n_times(times);
    first.mount(psp).await;
}

/// Hangs up on the first call without an answer.
pub(crate) async fn first_resets(psp: &MockServer) {
    let reset = |_: &Request| io::Error::from(io::ErrorKind::ConnectionReset);
    let first = charges().respond_with_err(reset).up_to_n_times(1);
    first.mount(psp).await;
}

/// What the provider was asked: key and body of each call, in order of arrival.
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

/// What every call for the attempt must look like.
pub(crate) fn expected_call(order_id: Uuid, attempt: i32) -> (String, Value) {
    let body = json!({
        "reference": order_id,
        "amount": 5_000,
        "currency": "USD",
        "payment_method": "pm_card_ok",
    });
    (format!("pay:{order_id}:{attempt}"), body)
}

/// What the provider was asked with this method and path: the bodies, in order of arrival.
pub(crate) async fn asked(psp: &MockServer, verb: &str, at: &str) -> Vec<Value> {
    let requests = psp.received_requests().await.unwrap();
    let matching = requests
        .iter()
        .filter(|it| it.method.as_str() == verb && it.url.path() == at);
    matching
        .map(|it| it.body_json().unwrap_or_default())
        .collect()
}

/// The books as a look-up sees them, by key and by reference alike.
pub(crate) async fn look_ups_find(psp: &MockServer, charges: Value) {
    let found = ResponseTemplate::new(200).set_body_json(json!({ "data": charges }));
    let look_up = Mock::given(method("GET")).and(path("/v1/charges"));
    look_up.respond_with(found).mount(psp).await;
}

/// Cancellations are answered so.
pub(crate) async fn cancellations_say(psp: &MockServer, answer: ResponseTemplate) {
    let cancel = Mock::given(method("POST")).and(path("/v1/cancellations"));
    cancel.respond_with(answer).mount(psp).await;
}

pub(crate) fn burnt() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({ "key": "k", "status": "cancelled" }))
}

pub(crate) fn was_charged(charge_id: &str) -> ResponseTemplate {
    let charge = json!({ "id": charge_id, "status": "captured" });
    ResponseTemplate::new(200)
        .set_body_json(json!({ "key": "k", "status": "captured", "charge": charge }))
}

/// Refunds succeed, each charge's always with the same id, as behind a key.
pub(crate) async fn refunds(psp: &MockServer) {
    let refunded = |request: &Request| {
        let body: Value = request.body_json().unwrap();
        let id = format!("re_{}", body["charge_id"].as_str().unwrap());
        ResponseTemplate::new(201).set_body_json(json!({ "id": id, "status": "refunded" }))
    };
    let refund = Mock::given(method("POST")).and(path("/v1/refunds"));
    refund.respond_with(refunded).mount(psp).await;
}

/// Refunds are answered so for the first calls only.
pub(crate) async fn first_refunds_say(psp: &MockServer, times: u64, answer: ResponseTemplate) {
    let refund = Mock::given(method("POST")).and(path("/v1/refunds"));
    let first = refund.respond_with(answer).up_to_n_times(times);
    first.mount(psp).await;
}
