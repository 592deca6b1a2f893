//! `POST /api/orders`: places an order in one of the ways in which clients repeat requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use endpoints::Service;
use endpoints::client::new_key;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::body;
use crate::app::{API_KEY, App};
use crate::problem::Problem;

/// Requests of the mode `twenty`.
const AT_ONCE: usize = 20;
const QUANTITY_MAX: u32 = 1_000;
/// Price of one unit, in minor units of the currency.
const UNIT_PRICE: u32 = 2_500;
/// Longest wait for one response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Retries after a cut connection, while the first request may still hold the key.
const RETRIES_MAX: usize = 10;
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Headers of a response that the page shows.
const SHOWN_HEADERS: [&str; 6] = [
    "idempotent-replayed",
    "location",
    "etag",
    "retry-after",
    "content-type",
    "x-correlation-id",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    mode: Mode,
    #[serde(default = "default_method")]
    payment_method: String,
    #[serde(default = "default_sku")]
    sku: String,
    #[serde(default = "default_quantity")]
    quantity: u32,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Once,
    Twice,
    Twenty,
    OtherBody,
    Cut,
}

fn default_method() -> String {
    "pm_card_ok".to_owned()
}

fn default_sku() -> String {
    "SKU-99".to_owned()
}

fn default_quantity() -> u32 {
    2
}

#[derive(Serialize)]
pub(crate) struct Placed {
    order_id: Option<Uuid>,
    key: String,
    responses: Vec<Exchange>,
    summary: String,
}

/// One sent copy of the request: its response, or why there is none.
#[derive(Serialize)]
struct Exchange {
    n: usize,
    status: Option<u16>,
    replayed: bool,
    ms: u64,
    body: Option<Value>,
    error: Option<String>,
    headers: BTreeMap<&'static str, String>,
}

pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    request: Result<Json<Request>, JsonRejection>,
) -> Result<Json<Placed>, Problem> {
    app.ready()?;
    let request = body(request)?;
    if !(1..=QUANTITY_MAX).contains(&request.quantity) {
        let detail = format!("The quantity must be from 1 to {QUANTITY_MAX}.");
        return Err(Problem::bad_request(detail));
    }
    let sender = Arc::new(Sender::new(&app));
    let text = order_body(&request, request.quantity);
    let responses = match request.mode {
        Mode::Once => vec![sender.send(1, &text).await],
        Mode::Twice => vec![sender.send(1, &text).await, sender.send(2, &text).await],
        Mode::Twenty => at_once(&sender, &text).await,
        Mode::OtherBody => {
            let other = order_body(&request, request.quantity % QUANTITY_MAX + 1);
            vec![sender.send(1, &text).await, sender.send(2, &other).await]
        }
        Mode::Cut => vec![
            sender.send_and_cut(&text).await,
            sender.retry(2, &text).await,
        ],
    };
    let placed = summarise(&app, sender.key.clone(), request.mode, responses);
    app.wake.notify_one();
    Ok(Json(placed))
}

fn order_body(request: &Request, quantity: u32) -> String {
    json!({
        "customer_id": "cust-88", "currency": "USD", "payment_method": request.payment_method,
        "items": [{"sku": request.sku, "quantity": quantity, "unit_price": UNIT_PRICE}],
    })
    .to_string()
}

async fn at_once(sender: &Arc<Sender>, text: &str) -> Vec<Exchange> {
    let mut requests = JoinSet::new();
    for n in 1..=AT_ONCE {
        let (sender, text) = (Arc::clone(sender), text.to_owned());
        requests.spawn(async move { sender.send(n, &text).await });
    }
    let mut responses = requests.join_all().await;
    responses.sort_by_key(|response| response.n);
    responses
}

/// Remembers and follows the order, and summarises what happened in one line.
fn summarise(app: &App, key: String, mode: Mode, responses: Vec<Exchange>) -> Placed {
    let mut orders = BTreeSet::new();
    for response in &responses {
        let is_accepted = response
            .status
            .is_some_and(|status| (200..300).contains(&status));
        if let Some(order) = response.order_id().filter(|_| is_accepted) {
            app.hub.memory().remember_accepted(order);
            app.hub.follow(order);
            orders.insert(order);
        }
    }
    let count = |number: usize, one: &str, many: &str| match number {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    let mut summary = format!(
        "{}, {}",
        count(responses.len(), "request", "requests"),
        count(orders.len(), "order", "orders")
    );
    if mode == Mode::OtherBody && responses.iter().any(|it| it.status == Some(422)) {
        summary.push_str("; the other body under the same key was rejected");
    }
    Placed {
        order_id: orders.first().copied(),
        key,
        responses,
        summary,
    }
}

/// Sends requests under one key, all in one trace that is always recorded.
struct Sender {
    http: reqwest::Client,
    order_url: String,
    key: String,
    trace_id: String,
}

impl Sender {
    fn new(app: &App) -> Self {
        Self {
            http: app.http.clone(),
            order_url: app.endpoints().url(Service::Order).to_owned(),
            key: new_key("console"),
            trace_id: Uuid::new_v4().simple().to_string(),
        }
    }

    fn traceparent(&self) -> String {
        format!(
            "00-{}-{:016x}-01",
            self.trace_id,
            rand::random_range(1..u64::MAX)
        )
    }

    async fn send(&self, n: usize, text: &str) -> Exchange {
        let started = Instant::now();
        let response = self.request(text).send().await;
        let ms = || started.elapsed().as_millis() as u64;
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                let error = format!("{:#}", anyhow::Error::new(error));
                return Exchange::without_response(n, ms(), error);
            }
        };
        let headers = shown_headers(response.headers());
        let status = response.status().as_u16();
        let body = response.text().await;
        let took = ms();
        match body {
            Ok(body) => Exchange {
                n,
                status: Some(status),
                replayed: headers
                    .get("idempotent-replayed")
                    .is_some_and(|it| it == "true"),
                ms: took,
                body: Some(serde_json::from_str(&body).unwrap_or(Value::String(body))),
                error: None,
                headers,
            },
            Err(error) => {
                Exchange::without_response(n, took, format!("{:#}", anyhow::Error::new(error)))
            }
        }
    }

    fn request(&self, text: &str) -> reqwest::RequestBuilder {
        self.http
            .post(format!("{}/orders", self.order_url))
            .timeout(REQUEST_TIMEOUT)
            .bearer_auth(API_KEY)
            .header("idempotency-key", &self.key)
            .header("traceparent", self.traceparent())
            .header("content-type", "application/json")
            .body(text.to_owned())
    }

    /// Sends the whole request on a connection of its own, and closes it after the last byte.
    async fn send_and_cut(&self, text: &str) -> Exchange {
        let started = Instant::now();
        let sent = self.write_and_close(text).await;
        let error = match sent {
            Ok(()) => "The connection was cut after the last byte. No response arrived.".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        Exchange::without_response(1, started.elapsed().as_millis() as u64, error)
    }

    async fn write_and_close(&self, text: &str) -> anyhow::Result<()> {
        let url = Url::parse(&self.order_url).context("the order service's URL is invalid")?;
        let host = url
            .host_str()
            .context("the order service's URL has no host")?;
        let port = url.port_or_known_default().context("the URL has no port")?;
        let mut stream = TcpStream::connect((host, port))
            .await
            .context("connecting")?;
        let request = format!(
            "POST /orders HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {API_KEY}\r\n\
             idempotency-key: {}\r\ntraceparent: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{text}",
            self.key,
            self.traceparent(),
            text.len()
        );
        stream
            .write_all(request.as_bytes())
            .await
            .context("sending the request")?;
        stream.shutdown().await.context("closing the connection")
    }

    /// Retries until the first request no longer holds the key.
    async fn retry(&self, n: usize, text: &str) -> Exchange {
        for _ in 0..RETRIES_MAX {
            let response = self.send(n, text).await;
            if response.status != Some(409) {
                return response;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        self.send(n, text).await
    }
}

impl Exchange {
    fn without_response(n: usize, ms: u64, error: String) -> Self {
        Self {
            n,
            status: None,
            replayed: false,
            ms,
            body: None,
            error: Some(error),
            headers: BTreeMap::new(),
        }
    }

    fn order_id(&self) -> Option<Uuid> {
        self.body.as_ref()?["order_id"].as_str()?.parse().ok()
    }
}

fn shown_headers(headers: &reqwest::header::HeaderMap) -> BTreeMap<&'static str, String> {
    let shown = SHOWN_HEADERS.into_iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name, value.to_owned()))
    });
    shown.collect()
}
