//! An operator of a consumer, over HTTP as in a service.

use endpoints::operator::OperatorClient;
use inbox::Consumer;
use operators::{TokenList, Tokens};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use sqlx::PgPool;
use testkit::operator;
use tokio::net::TcpListener;

use crate::effects::Effects;

pub(crate) struct Operator {
    url: String,
    client: OperatorClient,
}

impl Operator {
    /// Serves the consumer's routes until the test ends.
    pub(crate) async fn of(consumer: &Consumer<Effects>, pool: &PgPool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tokens = Tokens::parse(&TokenList::from(operator::setting())).unwrap();
        let routes = operators::finish(consumer.routes(), tokens, pool.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        let client = operator::client().unwrap();
        Self { url, client }
    }

    pub(crate) async fn request(&self, method: Method, path: &str) -> (StatusCode, Value) {
        let url = format!("{}/admin/parked{path}", self.url);
        let response = self.client.request(method, &url).send().await.unwrap();
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

    /// A redrive that dies on its way. The server stays alive and answers 500.
    pub(crate) async fn redrive_dying(&self, id: i64) {
        let (status, body) = self.request(Method::POST, &format!("/{id}/redrive")).await;
        assert_eq!(status, 500, "{body}");
    }

    pub(crate) async fn discard(&self, id: i64) -> (bool, [i64; 3]) {
        let body = self.expect(Method::DELETE, &format!("/{id}")).await;
        (body["discarded"].as_bool().unwrap(), counts(&body))
    }
}

fn counts(body: &Value) -> [i64; 3] {
    ["handled", "dropped", "left"].map(|name| body[name].as_i64().unwrap())
}
