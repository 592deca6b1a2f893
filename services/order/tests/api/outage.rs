//! R11: the store is away, in each way that it can be. Every row of the table in
//! `docs/store-outages.md` is held to what it says, and to work again once the store is back.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use service_kit::database::STORE_TIMEOUT;
use sqlx::Connection as _;
use testkit::outages::Outage;
use testkit::outages::table::{self, Row};
use uuid::Uuid;

use crate::answer::Answer;
use crate::eventually;
use crate::service::{GLOBEX, KEY, Service, far_store, migrated, order, orders_stored, send};

const HEADING: &str = "Order service";
const NO_DATABASE: &str = "postgres://nobody@127.0.0.1:1/none";
/// What is promised, for the caller and for the work, and what a busy machine adds.
const ANSWER_MAX: Duration = STORE_TIMEOUT
    .saturating_mul(2)
    .saturating_add(Duration::from_secs(5));
/// Few enough that connections which got lost are missed.
const CONNECTIONS_MAX: u32 = 3;

fn rows() -> Vec<Row> {
    table::rows(HEADING).unwrap()
}

#[tokio::test]
async fn the_table_has_a_row_for_every_endpoint_and_no_other() {
    let service = Service::start().await;
    let document = service.get("/openapi.json").await.expect(200).json();
    let mut endpoints = table::openapi_endpoints(&document).unwrap();
    endpoints.extend(table::common_endpoints());
    assert!(endpoints.len() >= 11, "{endpoints:?}");
    let rows: BTreeSet<String> = rows().iter().map(|row| row.endpoint.to_owned()).collect();
    assert_eq!(rows, endpoints);
}

#[tokio::test]
async fn while_the_store_refuses_connections_every_row_holds() {
    every_row_holds(Outage::Closed).await;
}

#[tokio::test]
async fn while_the_store_is_silent_every_row_holds() {
    every_row_holds(Outage::Silent).await;
}

#[tokio::test]
async fn while_the_store_has_no_connection_left_every_row_holds() {
    every_row_holds(Outage::Exhausted).await;
}

async fn every_row_holds(outage: Outage) {
    let store = far_store().await;
    let service = Service::start_far_from(&store, |config| {
        config.application.database.database_connections_max = CONNECTIONS_MAX;
        config.intake_writers = 1;
    });
    let service = service.await;
    let (placed, declined) = tokio::join!(service.order_in("placed"), service.order_in("declined"));
    let call = |row: Row| (row, call(&service, row.endpoint, placed, declined));
    let calls: Vec<(Row, Call)> = rows().into_iter().map(call).collect();

    store.begin(outage).await.unwrap();
    let answers = join_all(calls.iter().map(|(_, call)| call.answer())).await;
    for (
        (
            Row {
                endpoint,
                status_without_store: away,
            },
            _,
        ),
        answer,
    ) in calls.iter().zip(answers)
    {
        assert_eq!(answer.status, *away, "{outage:?}: {endpoint}: {answer:?}");
        expect_away(&answer, *away);
    }
    let nobody_known = service
        .anonymous(Method::GET, "/orders")
        .bearer_auth(GLOBEX);
    expect_away(&bounded(nobody_known).await, 503);
    send(service.anonymous(Method::GET, "/orders"))
        .await
        .expect(401);

    store.end(outage).await.unwrap();
    eventually("the service is ready", async || {
        let ready = send(service.anonymous(Method::GET, "/readyz")).await;
        (ready.status == 200).then_some(())
    })
    .await;
    for (Row { endpoint, .. }, call) in &calls {
        let answer = eventually("the store is back", async || {
            let answer = call.answer().await;
            (answer.status != 503).then_some(answer)
        })
        .await;
        assert!(
            call.after.contains(&answer.status),
            "{endpoint}: {answer:?}"
        );
    }
    all_connections_serve(&service, placed).await;
    // The two before, and one for each way to place one, however often it was asked for.
    let stored = service.stored().await;
    assert_eq!(stored.orders, 4, "{stored:?}");
    assert_eq!(service.events(declined, "order.payment_requested").await, 1);
    assert_eq!(service.events(placed, "order.cancel_requested").await, 1);
}

#[track_caller]
fn expect_away(answer: &Answer, status: u16) {
    answer.expect(status);
    if status == 503 {
        answer.expect_problem(503, "temporarily_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

/// More requests at once than there are connections: if some were lost for good, these would wait
/// for them in vain.
async fn all_connections_serve(service: &Service, id: Uuid) {
    let path = format!("/orders/{id}");
    for answer in join_all((0..4 * CONNECTIONS_MAX).map(|_| service.get(&path))).await {
        answer.expect(200);
    }
}

/// A request that can be sent again, and how it may be answered by a service that is well.
struct Call {
    request: RequestBuilder,
    after: &'static [u16],
}

impl Call {
    async fn answer(&self) -> Answer {
        bounded(self.request.try_clone().unwrap()).await
    }
}

async fn bounded(request: RequestBuilder) -> Answer {
    let answer = tokio::time::timeout(ANSWER_MAX, send(request)).await;
    answer.expect("no answer in time")
}

fn call(service: &Service, endpoint: &str, placed: Uuid, declined: Uuid) -> Call {
    let (method, path) = endpoint.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let request = |path: &str| service.request(method.clone(), path);
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
        // A new row that needs more than this is not answered 200 afterwards, and so not missed.
        _ => (request(&of(placed)), &[200]),
    };
    Call { request, after }
}

#[tokio::test]
async fn a_service_that_never_had_a_store_fails_soon_is_alive_and_not_ready() {
    let service = Service::start_on(NO_DATABASE, |_| ()).await;
    let id = Uuid::new_v4();
    let calls = rows().into_iter();
    let calls = calls.map(|row| {
        (
            row.status_without_store,
            call(&service, row.endpoint, id, id),
        )
    });
    join_all(calls.map(async |(away, call)| expect_away(&call.answer().await, away))).await;
}

#[tokio::test]
async fn while_all_connections_wait_for_a_lock_every_request_fails_soon_and_nothing_is_stored() {
    let service = Service::start_on(&migrated().await, |config| {
        config.application.database.database_connections_max = CONNECTIONS_MAX;
        config.intake_writers = 1;
    })
    .await;
    let id = service.order_in("placed").await;
    let mut outside = service.pool.acquire().await.unwrap();
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
        .map(|row| call(&service, row.endpoint, id, id))
        .collect();
    for answer in join_all(calls.iter().map(Call::answer)).await {
        expect_away(&answer, 503);
    }
    held.rollback().await.unwrap();
    assert_eq!(service.stored().await, orders_stored(1));
    for call in &calls {
        // Somebody else's wish was first, or one's own: either way it is an answer.
        let answer = call.answer().await;
        assert!(answer.status < 500, "{answer:?}");
    }
    all_connections_serve(&service, id).await;
}
