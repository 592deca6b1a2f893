//! Store outages of each kind. Every row of the table in `docs/store-outages.md` is tested during
//! the outage, and must work again after it.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use service_kit::database::STORE_TIMEOUT;
use sqlx::Connection as _;
use testkit::ApiResponse;
use testkit::outages::Outage;
use testkit::outages::table::{self, Row};
use uuid::Uuid;

use crate::eventually;
use crate::harness::{
    GLOBEX, Harness, KEY, migrated, order, orders_stored, send, store_behind_proxy,
};

const HEADING: &str = "Order service";
const NO_DATABASE: &str = "postgres://unknown@127.0.0.1:1/none";
/// The time limits of authentication and of the work, plus a margin for a busy machine.
const RESPONSE_MAX: Duration = STORE_TIMEOUT
    .saturating_mul(2)
    .saturating_add(Duration::from_secs(60));
/// Few enough that a lost connection makes the test fail.
const CONNECTIONS_MAX: u32 = 3;

fn rows() -> Vec<Row> {
    table::rows(HEADING).unwrap()
}

#[tokio::test]
async fn outage_table_has_one_row_per_endpoint() {
    let harness = Harness::start().await;
    let document = harness.get("/openapi.json").await.expect(200).json();
    let mut endpoints = table::openapi_endpoints(&document).unwrap();
    endpoints.extend(table::common_endpoints());
    assert!(endpoints.len() >= 11, "{endpoints:?}");
    let rows: BTreeSet<String> = rows().iter().map(|row| row.endpoint.to_owned()).collect();
    assert_eq!(rows, endpoints);
}

#[tokio::test]
async fn outage_table_holds_while_the_port_is_closed() {
    every_row_holds(Outage::Closed).await;
}

#[tokio::test]
async fn outage_table_holds_while_the_store_is_silent() {
    every_row_holds(Outage::Silent).await;
}

#[tokio::test]
async fn outage_table_holds_while_connections_are_exhausted() {
    every_row_holds(Outage::Exhausted).await;
}

async fn every_row_holds(outage: Outage) {
    let store = store_behind_proxy().await;
    let harness = Harness::start_behind_proxy(&store, |config| {
        config.application.database.database_connections_max = CONNECTIONS_MAX;
        config.intake_writers = 1;
    });
    let harness = harness.await;
    let (placed, declined) = tokio::join!(harness.order_in("placed"), harness.order_in("declined"));
    let call = |row: Row| (row, call(&harness, row.endpoint, placed, declined));
    let calls: Vec<(Row, Call)> = rows().into_iter().map(call).collect();

    store.begin(outage).await.unwrap();
    let responses = join_all(calls.iter().map(|(_, call)| call.response())).await;
    for (
        (
            Row {
                endpoint,
                status_without_store: away,
            },
            _,
        ),
        response,
    ) in calls.iter().zip(responses)
    {
        assert_eq!(
            response.status, *away,
            "{outage:?}: {endpoint}: {response:?}"
        );
        expect_outage(&response, *away);
    }
    let not_cached = harness
        .anonymous(Method::GET, "/orders")
        .bearer_auth(GLOBEX);
    expect_outage(&bounded(not_cached).await, 503);
    send(harness.anonymous(Method::GET, "/orders"))
        .await
        .expect(401);

    store.end(outage).await.unwrap();
    eventually("the service is ready", async || {
        let ready = send(harness.anonymous(Method::GET, "/readyz")).await;
        (ready.status == 200).then_some(())
    })
    .await;
    for (Row { endpoint, .. }, call) in &calls {
        let response = eventually("the store is back", async || {
            let response = call.response().await;
            (response.status != 503).then_some(response)
        })
        .await;
        assert!(
            call.after.contains(&response.status),
            "{endpoint}: {response:?}"
        );
    }
    all_connections_serve(&harness, placed).await;
    // The two orders from before, plus one by POST and one by PUT, although each was sent many
    // times.
    let stored = harness.stored().await;
    assert_eq!(stored.orders, 4, "{stored:?}");
    assert_eq!(harness.events(declined, "order.payment_requested").await, 1);
    assert_eq!(harness.events(placed, "order.cancel_requested").await, 1);
}

#[track_caller]
fn expect_outage(response: &ApiResponse, status: u16) {
    response.expect(status);
    if status == 503 {
        response.expect_problem(503, "temporarily_unavailable");
        assert_eq!(response.header("retry-after"), Some("1"));
    }
}

/// Sends more concurrent requests than there are connections. If a connection were lost, some of
/// them would time out.
async fn all_connections_serve(harness: &Harness, id: Uuid) {
    let path = format!("/orders/{id}");
    for response in join_all((0..4 * CONNECTIONS_MAX).map(|_| harness.get(&path))).await {
        response.expect(200);
    }
}

/// A repeatable request, and the statuses that a healthy service may return for it.
struct Call {
    request: RequestBuilder,
    after: &'static [u16],
}

impl Call {
    async fn response(&self) -> ApiResponse {
        bounded(self.request.try_clone().unwrap()).await
    }
}

async fn bounded(request: RequestBuilder) -> ApiResponse {
    let response = tokio::time::timeout(RESPONSE_MAX, send(request)).await;
    response.expect("no response in time")
}

fn call(harness: &Harness, endpoint: &str, placed: Uuid, declined: Uuid) -> Call {
    let (method, path) = endpoint.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let request = |path: &str| harness.request(method.clone(), path);
    let of = |id: Uuid| path.replace("{id}", &id.to_string());
    let (request, after): (_, &[u16]) = match endpoint {
        "POST /orders" => (request(path).header(KEY, "k-1").json(&order()), &[201]),
        "PUT /orders/{id}" => (request(&of(Uuid::new_v4())).json(&order()), &[201, 200]),
        "DELETE /orders/{id}" => (request(&of(placed)), &[204]),
        "POST /orders/{id}/payments" => {
            let body = json!({"payment_method": "pm_other"});
            let request = request(&of(declined)).header(KEY, "k-1").json(&body);
            (request, &[201])
        }
        // A new row that needs another request fails here, because it does not get 200.
        _ => (request(&of(placed)), &[200]),
    };
    Call { request, after }
}

#[tokio::test]
async fn service_without_a_store_is_alive_and_not_ready() {
    let harness = Harness::start_on(NO_DATABASE, |_| ()).await;
    let id = Uuid::new_v4();
    let calls = rows().into_iter();
    let calls = calls.map(|row| {
        (
            row.status_without_store,
            call(&harness, row.endpoint, id, id),
        )
    });
    join_all(calls.map(async |(away, call)| expect_outage(&call.response().await, away))).await;
}

#[tokio::test]
async fn requests_fail_soon_while_connections_wait_for_a_lock() {
    let harness = Harness::start_on(&migrated().await, |config| {
        config.application.database.database_connections_max = CONNECTIONS_MAX;
        config.intake_writers = 1;
    })
    .await;
    let id = harness.order_in("placed").await;
    let mut outside = harness.pool.acquire().await.unwrap();
    let mut held = outside.begin().await.unwrap();
    let lock = "lock table orders, idempotency_keys in access exclusive mode";
    sqlx::raw_sql(lock).execute(&mut *held).await.unwrap();
    let rows = rows()
        .into_iter()
        .filter(|row| row.status_without_store == 503);
    let rows = rows.filter(|row| row.endpoint != "GET /readyz");
    let calls: Vec<Call> = rows
        .cycle()
        .take(6 * CONNECTIONS_MAX as usize)
        .map(|row| call(&harness, row.endpoint, id, id))
        .collect();
    for response in join_all(calls.iter().map(Call::response)).await {
        expect_outage(&response, 503);
    }
    held.rollback().await.unwrap();
    assert_eq!(harness.stored().await, orders_stored(1));
    for call in &calls {
        // Any definite response is accepted, because the requests affect each other.
        let response = call.response().await;
        assert!(response.status < 500, "{response:?}");
    }
    all_connections_serve(&harness, id).await;
}

/// After a failover the service may still be connected to a server that accepts no writes.
#[tokio::test]
async fn server_without_writes_is_an_outage_for_writes() {
    let url = migrated().await;
    let before = Harness::start_on(&url, |_| ()).await;
    let (placed, declined) = tokio::join!(before.order_in("placed"), before.order_in("declined"));
    let stored = before.stored().await;
    let standby = format!("{url}?options[default_transaction_read_only]=on");
    let harness = Harness::start_on(&standby, |_| ()).await;
    for row in rows() {
        let response = call(&harness, row.endpoint, placed, declined)
            .response()
            .await;
        if row.endpoint.starts_with("GET ") {
            response.expect(200);
        } else {
            expect_outage(&response, 503);
        }
    }
    assert_eq!(before.stored().await, stored);
}
