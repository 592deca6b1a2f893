//! Store outages of each kind. Every row of the table in `docs/store-outages.md` is tested during the
//! outage, and must work again after it.

mod call;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use payment::startup::build;
use reqwest::Method;
use service_kit::database::STORE_TIMEOUT;
use sqlx::Connection as _;
use testkit::ApiResponse;
use testkit::outages::table::{self, Row};
use testkit::outages::{Outage, StoreBehindProxy};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use self::call::{Call, TargetIds, bounded};
use crate::api_client::{ApiClient, GLOBEX, charge, send};
use crate::api_server::ApiServer;
use crate::application::config;
use crate::direct::stored;
use crate::harness::{Harness, eventually};
use crate::provider::{mount_captures, request_bodies};
use crate::reconciling::mount_ledger;

const HEADING: &str = "Payment service";
const NO_DATABASE: &str = "postgres://absent@127.0.0.1:1/none";
/// The time limits of authentication and of the work, plus a margin for a busy machine.
const RESPONSE_MAX: Duration = STORE_TIMEOUT
    .saturating_mul(2)
    .saturating_add(Duration::from_secs(60));
/// Longest time until everything works again. Workers time out on a silent store later than requests.
const RECOVERY_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
/// More connections than rows and workers together. So each of them gets a connection that was used
/// a moment ago: the pool assumes that it is alive, but it is dead.
const CONNECTIONS_MAX: u32 = 24;

fn rows() -> Vec<Row> {
    table::rows(HEADING).unwrap()
}

#[tokio::test]
async fn outage_table_has_one_row_per_endpoint() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, Duration::ZERO).await;
    let document = server.client.get("/openapi.json").await.expect(200).json();
    let mut endpoints = table::openapi_endpoints(&document).unwrap();
    endpoints.extend(table::common_endpoints());
    // The document does not describe the operator's routes.
    for source in [
        include_str!("../../src/routes.rs"),
        include_str!("../../../../shared/inbox/src/routes.rs"),
        include_str!("../../../../shared/outbox/src/routes.rs"),
        include_str!("../../../../shared/operators/src/routes.rs"),
    ] {
        endpoints.extend(table::routes_in_source(source));
    }
    assert!(endpoints.len() >= 16, "{endpoints:?}");
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
    let service = ServiceBehindProxy::start().await;
    let (harness, store, client) = (&service.harness, &service.store, &service.client);
    let operators = &service.operators;
    let call = |row: Row| {
        let call = Call::new(client, operators, row.endpoint, service.targets);
        (row, call)
    };
    let calls: Vec<(Row, Call)> = rows().into_iter().map(call).collect();
    let before = service.effects().await;
    service.all_connections_serve().await;

    store.begin(outage).await.unwrap();
    let responses = join_all(calls.iter().map(|(_, call)| call.send())).await;
    for ((row, _), response) in calls.iter().zip(responses) {
        let (endpoint, expected) = (row.endpoint, row.status_without_store);
        assert_eq!(
            response.status, expected,
            "{outage:?}: {endpoint}: {response:?}"
        );
        expect_outage(&response, expected);
    }
    let one = format!("/payments/{}", service.targets.payment);
    let anonymous = || client.request(Method::GET, &one);
    // This API key is not cached.
    expect_outage(&bounded(anonymous().bearer_auth(GLOBEX)).await, 503);
    send(anonymous()).await.expect(401);
    assert_eq!(service.effects().await, before);

    store.end(outage).await.unwrap();
    eventually("the service is ready", async || {
        let ready = send(client.request(Method::GET, "/readyz")).await;
        ready.status == 200
    })
    .await;
    let responses = join_all(calls.iter().map(|(_, call)| call.send_until_definite())).await;
    for ((Row { endpoint, .. }, call), response) in calls.iter().zip(responses) {
        assert_eq!(
            response.status, call.status_after,
            "{endpoint}: {response:?}"
        );
    }
    service.all_connections_serve().await;
    // The charge from before, and one for the key, although the request was sent many times.
    let charges = request_bodies(&harness.psp, "POST", "/v1/charges").await;
    assert_eq!(charges.len(), 2, "{charges:?}");
    let after = service.effects().await;
    assert_eq!(after.stored, [2, 2, 2, 0]);
    assert_eq!((after.parked, after.reports), (1, 1));
}

#[tokio::test]
async fn service_without_a_store_is_alive_and_not_ready() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let (client, operators, _stop) = start_on(&harness, NO_DATABASE).await;
    let calls = rows().into_iter();
    let calls = calls.map(|row| {
        (
            row.status_without_store,
            Call::new(&client, &operators, row.endpoint, TargetIds::none()),
        )
    });
    join_all(calls.map(async |(expected, call)| expect_outage(&call.send().await, expected))).await;
    assert!(
        request_bodies(&harness.psp, "POST", "/v1/charges")
            .await
            .is_empty()
    );
}

#[track_caller]
fn expect_outage(response: &ApiResponse, status: u16) {
    response.expect(status);
    if status == 503 {
        response.expect_problem(503, "temporarily_unavailable");
        assert_eq!(response.header("retry-after"), Some("1"));
    }
}

/// The whole service with its store behind a fault proxy, and rows that the requests can name.
struct ServiceBehindProxy {
    harness: Harness,
    store: StoreBehindProxy,
    client: ApiClient,
    /// A client of the operators' port.
    operators: ApiClient,
    targets: TargetIds,
    _stop: DropGuard,
}

/// The effects of requests, in the store and at the provider.
#[derive(Debug, PartialEq, Eq)]
struct Effects {
    stored: [i64; 4],
    parked: i64,
    reports: i64,
    calls: usize,
}

impl ServiceBehindProxy {
    async fn start() -> Self {
        let harness = Harness::create().await;
        mount_captures(&harness.psp).await;
        mount_ledger(&harness, Vec::new()).await;
        let store = StoreBehindProxy::start(harness.url.clone()).await.unwrap();
        let (client, operators, stop) = start_on(&harness, &store.proxy.url).await;
        let payment = client.post("k-0", &charge()).await.expect(201).payment_id();
        let targets = TargetIds {
            payment,
            kept: park(&harness).await,
            discarded: park(&harness).await,
        };
        Self {
            harness,
            store,
            client,
            operators,
            targets,
            _stop: stop,
        }
    }

    async fn effects(&self) -> Effects {
        let parked = "select count(*) from parked_messages";
        let reports = "select count(*) from reconciliations";
        Effects {
            stored: stored(&self.harness).await,
            parked: self.harness.count(parked).await,
            reports: self.harness.count(reports).await,
            calls: self.harness.psp.received_requests().await.unwrap().len(),
        }
    }

    /// Checks that every connection of the pool works. A table lock makes requests wait in the store
    /// until as many sessions wait as the pool has places. A lost place would make that impossible.
    async fn all_connections_serve(&self) {
        let path = format!("/payments/{}", self.targets.payment);
        let read = || join_all((0..2 * CONNECTIONS_MAX).map(|_| self.client.get(&path)));
        let mut outside = self.harness.pool.acquire().await.unwrap();
        let mut held = outside.begin().await.unwrap();
        let lock = "lock table payments in access exclusive mode";
        sqlx::raw_sql(lock).execute(&mut *held).await.unwrap();
        let all_wait = Cell::new(false);
        // A request waits for a lock only for a short time, so other requests must follow.
        let press = async {
            while !all_wait.get() {
                read().await;
            }
        };
        let hold = async {
            let started = Instant::now();
            let waiting = async || self.store.sessions_waiting_for_locks().await.unwrap();
            while waiting().await < i64::from(CONNECTIONS_MAX) {
                assert!(started.elapsed() < RECOVERY_MAX, "connections are lost");
                tokio::time::sleep(POLL).await;
            }
            all_wait.set(true);
            held.rollback().await.unwrap();
        };
        tokio::join!(press, hold);
        for response in read().await {
            response.expect(200);
        }
    }
}

/// Returns clients of the customers' port and of the operators' port.
async fn start_on(harness: &Harness, database_url: &str) -> (ApiClient, ApiClient, DropGuard) {
    // The reaper runs all the time, so that it also uses the store when the outage begins.
    let mut config = config(harness, &["--reaper-interval-ms", "20"]);
    config.application.database.database_url = database_url.to_owned();
    config.application.database.database_connections_max = CONNECTIONS_MAX;
    let application = build(config).await.unwrap();
    let client = ApiClient::new(application.port().unwrap());
    let operators = ApiClient::new(application.operator_port().unwrap());
    let shutdown = CancellationToken::new();
    tokio::spawn(application.run_until(shutdown.clone()));
    (client, operators, shutdown.drop_guard())
}

/// Parks a message without a type, which no handler can process.
async fn park(harness: &Harness) -> i64 {
    let park = "insert into parked_messages
                    (consumer_group, identity, header_names, header_values, kafka_partition,
                     kafka_offset, failed, cause, tries)
                values ('payment', $1, '{}', '{}', 0, 0, true, 'unreadable', 1) returning id";
    let parked = sqlx::query_scalar(park).bind(Uuid::new_v4());
    parked.fetch_one(&harness.pool).await.unwrap()
}
