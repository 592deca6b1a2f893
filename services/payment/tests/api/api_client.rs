//! A client of the HTTP API, and the bodies that it sends.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::ApiResponse;
use uuid::Uuid;

pub(crate) const ACME: &str = "demo-key-acme";
pub(crate) const GLOBEX: &str = "demo-key-globex";
pub(crate) const KEY: &str = "idempotency-key";
/// Longest wait for a response. No test waits so long on purpose.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends requests to this port.
#[derive(Clone)]
pub(crate) struct ApiClient {
    port: u16,
    http: reqwest::Client,
}

impl ApiClient {
    pub(crate) fn new(port: u16) -> Self {
        let http = reqwest::Client::builder().timeout(TIMEOUT);
        let http = http.build().unwrap();
        Self { port, http }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        self.http.request(method, url)
    }

    pub(crate) async fn post(&self, key: &str, body: &Value) -> ApiResponse {
        self.post_as(ACME, key, body).await
    }

    pub(crate) async fn post_as(&self, api_key: &str, key: &str, body: &Value) -> ApiResponse {
        let request = self.request(Method::POST, "/payments");
        send(request.bearer_auth(api_key).header(KEY, key).json(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> ApiResponse {
        send(self.request(Method::GET, path).bearer_auth(ACME)).await
    }

    pub(crate) async fn payment(&self, id: Uuid) -> Value {
        let shown = self.get(&format!("/payments/{id}")).await;
        shown.expect(200).json()
    }
}

pub(crate) async fn send(request: RequestBuilder) -> ApiResponse {
    ApiResponse::read(request.send().await.unwrap()).await
}

/// 50 dollars, on the card that all provider calls of these tests must name.
pub(crate) fn charge() -> Value {
    json!({"amount": 5_000, "currency": "USD", "payment_method": "pm_card_ok"})
}

/// [`charge`] with one member set.
pub(crate) fn charge_with(member: &str, value: impl Into<Value>) -> Value {
    let mut charge = charge();
    charge[member] = value.into();
    charge
}
