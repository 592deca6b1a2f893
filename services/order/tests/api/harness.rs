//! The order service on a free port, with its own database.

use clap::Parser as _;
use order::config::{Command, Config, Migration, Program};
use order::startup::{build, migrate};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};
use testkit::ApiResponse;
use testkit::outages::StoreBehindProxy;
use testkit::postgres::template;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

pub(crate) const ACME: &str = "demo-key-acme";
pub(crate) const GLOBEX: &str = "demo-key-globex";
pub(crate) const KEY: &str = "idempotency-key";

/// No broker listens here.
const NO_BROKER: &str = "127.0.0.1:1";

pub(crate) struct Harness {
    pub(crate) port: u16,
    /// The test's own connections to the service's database.
    pub(crate) pool: PgPool,
    client: reqwest::Client,
    _stop: DropGuard,
}

/// The number of rows of each table.
#[derive(Debug, Default, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Stored {
    pub(crate) keys: i64,
    pub(crate) orders: i64,
    pub(crate) items: i64,
    pub(crate) events: i64,
}

impl Harness {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let database_url = migrated().await;
        Self::start_on(&database_url, change).await
    }

    /// Starts the service on this database, which need not exist.
    pub(crate) async fn start_on(database_url: &str, change: impl FnOnce(&mut Config)) -> Self {
        let arguments = [
            ["order", "serve"],
            ["--listen", "127.0.0.1:0"],
            ["--operator-listen", "127.0.0.1:0"],
            ["--kafka-brokers", NO_BROKER],
            ["--database-url", database_url],
        ];
        let Command::Serve(mut config) = Program::parse_from(arguments.as_flattened()).command
        else {
            panic!("expected the serve command");
        };
        // Without a broker all events wait.
        config.order_wait_max_seconds = 0;
        change(&mut config);
        let application = build(*config).await.unwrap();
        let port = application.port().unwrap();
        let shutdown = CancellationToken::new();
        tokio::spawn(application.run_until(shutdown.clone()));
        Self {
            port,
            pool: pool(database_url),
            client: reqwest::Client::new(),
            _stop: shutdown.drop_guard(),
        }
    }

    /// Starts the service with its store behind a fault proxy. The test itself connects directly.
    pub(crate) async fn start_behind_proxy(
        store: &StoreBehindProxy,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let mut harness = Self::start_on(&store.proxy.url, change).await;
        harness.pool = pool(&store.database_url);
        harness
    }

    /// Keeps the reaper away from the outbox while the connection is held, so that the next COMMIT is
    /// that of the next request. The numbers are those of the maintenance lock of `outbox`.
    pub(crate) async fn hold_maintenance(&self) -> PoolConnection<Postgres> {
        let mut held = self.pool.acquire().await.unwrap();
        held.close_on_drop();
        sqlx::query("select pg_advisory_lock('outbox'::regclass::oid::integer, 1001)")
            .execute(&mut *held)
            .await
            .unwrap();
        held
    }

    /// A request without an API key.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        self.client.request(method, url)
    }

    /// A request by acme.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).bearer_auth(ACME)
    }

    pub(crate) async fn post(&self, key: &str, body: &Value) -> ApiResponse {
        self.post_as(ACME, key, body).await
    }

    pub(crate) async fn post_as(&self, api_key: &str, key: &str, body: &Value) -> ApiResponse {
        let request = self.anonymous(Method::POST, "/orders");
        send(request.bearer_auth(api_key).header(KEY, key).json(body)).await
    }

    pub(crate) async fn put(&self, id: Uuid, body: &Value) -> ApiResponse {
        self.put_as(ACME, id, body).await
    }

    pub(crate) async fn put_as(&self, api_key: &str, id: Uuid, body: &Value) -> ApiResponse {
        let request = self.anonymous(Method::PUT, &format!("/orders/{id}"));
        send(request.bearer_auth(api_key).json(body)).await
    }

    pub(crate) async fn delete(&self, id: Uuid) -> ApiResponse {
        send(self.request(Method::DELETE, &format!("/orders/{id}"))).await
    }

    /// Pays an order again with this payment method.
    pub(crate) async fn pay(&self, key: &str, id: Uuid, method: &str) -> ApiResponse {
        let request = self.request(Method::POST, &format!("/orders/{id}/payments"));
        send(
            request
                .header(KEY, key)
                .json(&json!({"payment_method": method})),
        )
        .await
    }

    /// A new order of acme with this status, as its events would have left it.
    pub(crate) async fn order_in(&self, status: &str) -> Uuid {
        let key = format!("order-{}", Uuid::new_v4());
        let placed = self.post(&key, &order()).await;
        let id = placed.expect(201).order_id();
        self.move_to(id, status).await;
        id
    }

    /// Changes a `placed` order as its events would.
    pub(crate) async fn move_to(&self, id: Uuid, status: &str) {
        let steps = match status {
            "placed" => 0,
            "paid" | "declined" => 1,
            _ => 2,
        };
        let moved = sqlx::query(
            "update orders set status = $2, version = version + $3
             where id = $1 and status = 'placed'",
        )
        .bind(id)
        .bind(status)
        .bind(steps)
        .execute(&self.pool)
        .await
        .unwrap();
        assert_eq!(moved.rows_affected(), 1);
    }

    /// The number of events of this type for an order.
    pub(crate) async fn events(&self, id: Uuid, event_type: &str) -> i64 {
        sqlx::query_scalar("select count(*) from outbox where subject = $1 and event_type = $2")
            .bind(id)
            .bind(event_type)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> ApiResponse {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn stored(&self) -> Stored {
        let counts = "select (select count(*) from idempotency_keys) as keys,
                             (select count(*) from orders) as orders,
                             (select count(*) from order_items) as items,
                             (select count(*) from outbox) as events";
        sqlx::query_as(counts).fetch_one(&self.pool).await.unwrap()
    }

    /// Runs a statement that the service itself never runs.
    pub(crate) async fn run_sql(&self, statement: &'static str) {
        sqlx::raw_sql(statement).execute(&self.pool).await.unwrap();
    }
}

pub(crate) async fn send(request: RequestBuilder) -> ApiResponse {
    ApiResponse::read(request.send().await.unwrap()).await
}

/// The URL of a new database with the service's tables and the demo principals.
pub(crate) async fn migrated() -> String {
    let migrate = |database_url| {
        migrate(Migration {
            database_url,
            demo_data: true,
        })
    };
    template::copy_for_test("order", migrate).await.unwrap()
}

/// A migrated database behind a fault proxy.
pub(crate) async fn store_behind_proxy() -> StoreBehindProxy {
    StoreBehindProxy::start(migrated().await).await.unwrap()
}

pub(crate) fn pool(database_url: &str) -> PgPool {
    let options = PgPoolOptions::new().max_connections(4);
    options.connect_lazy(database_url).unwrap()
}

/// A valid order with one line.
pub(crate) fn order() -> Value {
    json!({
        "customer_id": "cust-88",
        "currency": "USD",
        "payment_method": "pm_card_ok",
        "items": [{"sku": "SKU-99", "quantity": 2, "unit_price": 2500}],
    })
}

/// [`order`] with one member set.
pub(crate) fn order_with(member: &str, value: impl Into<Value>) -> Value {
    let mut order = order();
    order[member] = value.into();
    order
}

/// The rows of `count` orders with one line, each placed with its own key.
pub(crate) fn orders_stored(count: i64) -> Stored {
    Stored {
        keys: count,
        orders: count,
        items: count,
        events: count,
    }
}
