//! An operator of a consumer, over HTTP as in a service.

use inbox::Consumer;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::effects::Effects;

pub(crate) struct Operator {
    url: String,
    client: reqwest::Client,
}

impl Operator {
    /// Serves the consumer's routes until the test ends.
    pub(crate) async fn of(consumer: &Consumer<Effects>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = consumer.routes();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url, client }
    }

    pub(crate) async fn request(&self, method: Method, path: &str) -> (StatusCode, Value) {
        let url = format!("{}/admin/parked{path}", self.url);
        let response = self.client.request(method, url).send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }

    async fn expect(&self, method: Method, path: &str) -> Value {
        let (status, body) = self.request(method, path).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// All parked messages, oldest first.
    pub(crate) async fn list(&self) -> Vec<Value> {
        let page = self.expect(Method::GET, "").await;
        page["data"].as_array().unwrap().clone()
    }

    pub(crate) async fn first_id(&self) -> i64 {
        self.list().await[0]["id"].as_i64().unwrap()
    }

    pub(crate) async fn inspect(&self, id: i64) -> Value {
        self.expect(Method::GET, &format!("/{id}")).await
    }

    /// Redrives, and returns the numbers of messages handled, dropped and left.
    pub(crate) async fn redrive(&self, id: i64) -> [i64; 3] {
        let path = format!("/{id}/redrive");
        counts(&self.expect(Method::POST, &path).await)
    }

    /// Redrives; it may fail because another redrive holds the same order.
    pub(crate) async fn try_redrive(&self, id: i64) {
        let (status, body) = self.request(Method::POST, &format!("/{id}/redrive")).await;
        assert!([200, 503].contains(&status.as_u16()), "{body}");
    }

    /// A redrive without a response, because the process that serves it crashes.
    pub(crate) async fn redrive_without_response(&self, id: i64) {
        let url = format!("{}/admin/parked/{id}/redrive", self.url);
        self.client.post(url).send().await.unwrap_err();
    }

    pub(crate) async fn discard(&self, id: i64) -> (bool, [i64; 3]) {
        let body = self.expect(Method::DELETE, &format!("/{id}")).await;
        (body["discarded"].as_bool().unwrap(), counts(&body))
    }
}

fn counts(body: &Value) -> [i64; 3] {
    ["handled", "dropped", "left"].map(|name| body[name].as_i64().unwrap())
}
