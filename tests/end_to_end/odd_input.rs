//! Random input of clients, valid and odd: whatever the API accepts ends, and no message is parked.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::Service;
use endpoints::client::{new_key, order_body};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

/// Requests of each kind. Enough that every odd value occurs.
const ROUNDS: usize = 200;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
const PARKED: &str = "select count(*) from parked_messages";

/// A small generator: the same seed gives the same requests.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap_or_default()
    }

    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    /// Mostly an ordinary value, sometimes one of these.
    fn odd(&mut self, ordinary: impl Into<Value>, odd: &[Value]) -> Value {
        match self.below(10) {
            0 => self.of(odd),
            _ => ordinary.into(),
        }
    }
}

fn texts() -> Vec<Value> {
    let mut texts: Vec<Value> = [
        "",
        " ",
        "\0",
        "a\0b",
        "\u{feff}",
        "é✓\u{1f600}",
        "'; drop table orders; --",
        "%s%n{}",
        "null",
        "\r\nBcc: all@example.com",
        "\u{202e}abc",
        "../../etc/passwd",
        "00000000",
    ]
    .map(Value::from)
    .to_vec();
    texts.push("x".repeat(1_000).into());
    texts.push("x".repeat(255).into());
    texts.extend([json!(null), json!(7), json!([]), json!({})]);
    texts
}

fn numbers() -> Vec<Value> {
    let numbers = [
        i64::MIN,
        -1,
        0,
        1,
        99,
        2_147_483_647,
        2_147_483_648,
        4_294_967_295,
        999_999_999_999,
        i64::MAX,
    ];
    let mut numbers: Vec<Value> = numbers.map(Value::from).to_vec();
    numbers.extend([json!(1.5), json!("1"), json!(null), json!(1e300)]);
    numbers
}

fn methods() -> Vec<Value> {
    let methods = [
        "pm_card_declined",
        "pm_card_insufficient_funds",
        "pm_card_unknown",
        "pm_nonsense",
        "",
        "4242424242424242",
        "pm\0",
        "pm_card_processing",
        "pm_card_refund_slow",
    ];
    methods.map(Value::from).to_vec()
}

fn order(random: &mut Random) -> Value {
    let lines = match random.below(8) {
        0 => 0,
        1 => 100,
        _ => 1 + random.below(3),
    };
    let line = |random: &mut Random| {
        let skus = [texts(), vec![json!("SKU-none"), json!("SKU-1")]].concat();
        json!({
            "sku": random.odd("SKU-99", &skus),
            "quantity": random.odd(1, &numbers()),
            "unit_price": random.odd(2_500, &numbers()),
        })
    };
    let items: Vec<Value> = (0..lines).map(|_| line(random)).collect();
    let currencies = ["EUR", "JPY", "KWD", "usd", "XXX", "BGN", "US"].map(Value::from);
    let mut order = json!({
        "customer_id": random.odd("cust-88", &texts()),
        "currency": random.odd("USD", &currencies),
        "items": items,
        "payment_method": random.odd("pm_card_ok", &methods()),
    });
    if random.below(4) == 0 {
        order["reference"] = random.odd("cart-1", &texts());
    }
    if random.below(20) == 0 {
        order["surplus"] = json!(true);
    }
    order
}

struct Clients<'a> {
    harness: &'a Harness,
    http: reqwest::Client,
    random: Random,
    orders: Vec<Uuid>,
    /// Ids of direct charges: a client may use them for orders too.
    payments: Vec<Uuid>,
}

impl Clients<'_> {
    fn request(&mut self, service: Service, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.harness.system.url(service));
        let key = self.random.of(&["demo-key-acme", "demo-key-globex"]);
        let request = self.http.request(method, url).bearer_auth(key);
        let odd = ["00-zz-zz-00", "\"", "ü", "a b", "0"];
        let (trace, correlation) = (self.random.of(&odd), self.random.of(&odd));
        request
            .header("traceparent", trace.as_bytes())
            .header("x-correlation-id", correlation.as_bytes())
            .header("idempotency-key", new_key("odd"))
    }

    /// Sends; returns the body of an accepted request. A server error is a defect. A 503 is one if it does
    /// not go away: a busy machine may cause it, and a client then sends the same request again.
    async fn send(&mut self, request: RequestBuilder) -> anyhow::Result<Option<Value>> {
        let request = request.build()?;
        let what = format!("{} {}", request.method(), request.url().path());
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        let response = loop {
            let request = request.try_clone().context("not repeatable")?;
            let response = self.http.execute(request).await?;
            // A busy machine may answer 503 for a moment. The client repeats the request, with its key.
            let is_busy = response.status() == StatusCode::SERVICE_UNAVAILABLE
                && response.headers().contains_key("retry-after");
            if !is_busy || Instant::now() > deadline {
                break response;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        };
        let status = response.status();
        let text = response.text().await?;
        ensure!(!status.is_server_error(), "{what}: {status} {text}");
        let accepted = status.is_success();
        Ok(accepted.then(|| serde_json::from_str(&text).unwrap_or_default()))
    }

    /// An id for `PUT`: new, odd, that of an order or that of a direct charge.
    fn id(&mut self) -> Uuid {
        match self.random.below(6) {
            0 if !self.orders.is_empty() => self.random.of(&self.orders),
            1 | 2 if !self.payments.is_empty() => self.random.of(&self.payments),
            3 => self.random.of(&[Uuid::nil(), Uuid::max()]),
            _ => Uuid::new_v4(),
        }
    }

    async fn act(&mut self) -> anyhow::Result<()> {
        // Most odd orders are rejected. An ordinary one under an odd id must not be rare.
        let body = match self.random.below(3) {
            0 => serde_json::from_str(&order_body(1))?,
            _ => order(&mut self.random),
        };
        match self.random.below(10) {
            0..=2 => {
                let request = self.request(Service::Order, Method::POST, "/orders");
                let placed = self.send(request.json(&body)).await?;
                self.note_order(placed);
            }
            3..=5 => {
                let path = format!("/orders/{}", self.id());
                let request = self.request(Service::Order, Method::PUT, &path);
                let placed = self.send(request.json(&body)).await?;
                self.note_order(placed);
            }
            6 => {
                let path = format!("/orders/{}", self.id());
                let request = self.request(Service::Order, Method::DELETE, &path);
                self.send(request).await?;
            }
            7 => {
                let path = format!("/orders/{}/payments", self.id());
                let method = self.random.odd("pm_card_ok", &methods());
                let request = self.request(Service::Order, Method::POST, &path);
                let request = request.json(&json!({ "payment_method": method }));
                self.send(request).await?;
            }
            _ => {
                let payment = json!({
                    "amount": self.random.odd(700, &numbers()),
                    "currency": "USD",
                    "payment_method": self.random.odd("pm_card_ok", &methods()),
                });
                let request = self.request(Service::Payment, Method::POST, "/payments");
                let paid = self.send(request.json(&payment)).await?;
                let id: Option<Uuid> = paid.and_then(|it| it["payment_id"].as_str()?.parse().ok());
                self.payments.extend(id);
            }
        }
        Ok(())
    }

    fn note_order(&mut self, placed: Option<Value>) {
        let id: Option<Uuid> = placed.and_then(|it| it["order_id"].as_str()?.parse().ok());
        self.orders.extend(id);
    }
}

#[tokio::test]
async fn no_input_of_a_client_parks_a_message() -> anyhow::Result<()> {
    let mut options = options();
    let processing = ("PSP_PROCESSING_MS".to_owned(), "200".to_owned());
    options.env.psp.push(processing);
    let harness = Harness::start(options).await?;
    let seed = u64::from_le_bytes(Uuid::new_v4().into_bytes()[..8].try_into()?) | 1;
    println!("seed {seed}");
    let mut clients = Clients {
        harness: &harness,
        http: reqwest::Client::new(),
        random: Random(seed),
        orders: Vec::new(),
        payments: Vec::new(),
    };
    for _ in 0..ROUNDS {
        clients.act().await?;
    }
    let (orders, payments) = (clients.orders.len(), clients.payments.len());
    ensure!(
        orders >= 10 && payments >= 3,
        "seed {seed}: {orders} orders, {payments} payments"
    );
    // Every accepted order ends, and the money adds up.
    harness.expect_settled().await?;
    for service in [
        Service::Order,
        Service::Payment,
        Service::Fulfilment,
        Service::Receipt,
    ] {
        harness.wait_for_count(service, PARKED, 0).await?;
    }
    harness.stop().await
}
