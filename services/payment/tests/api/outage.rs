//! R11: the store is away, in each way that it can be. Every row of the table in
//! `docs/store-outages.md` is held to what it says, and to work again once the store is back.

mod call;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use payment::startup::Application;
use reqwest::Method;
use service_kit::database::STORE_TIMEOUT;
use sqlx::Connection as _;
use testkit::outages::table::{self, Row};
use testkit::outages::{Outage, StoreBehindProxy};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use self::call::{Call, Subjects, bounded};
use crate::application::config;
use crate::direct::stored;
use crate::front::{Answer, Caller, Front, GLOBEX, charge, send};
use crate::harness::{Harness, eventually};
use crate::provider::{asked, captures};
use crate::reconciling::books_hold;

const HEADING: &str = "Payment service";
const NO_DATABASE: &str = "postgres://nobody@127.0.0.1:1/none";
/// What is promised, for the caller and for the work, and what a busy machine adds.
const ANSWER_MAX: Duration = STORE_TIMEOUT
    .saturating_mul(2)
    .saturating_add(Duration::from_secs(5));
/// Longest time until everything works again: workers give up on a silent store later than requests.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// More than rows and workers together: each finds one that was used a moment ago, is believed to be
/// alive, and is not.
const CONNECTIONS_MAX: u32 = 24;

fn rows() -> Vec<Row> {
    table::rows(HEADING).unwrap()
}

#[tokio::test]
async fn the_table_has_a_row_for_every_endpoint_and_no_other() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, Duration::ZERO).await;
    let document = front.caller.get("/openapi.json").await.expect(200).json();
    let mut endpoints = table::openapi_endpoints(&document).unwrap();
    endpoints.extend(table::common_endpoints());
    // The operator's routes are in no document.
    for source in [
        include_str!("../../src/routes.rs"),
        include_str!("../../../../shared/inbox/src/routes.rs"),
        include_str!("../../../../shared/outbox/src/routes.rs"),
    ] {
        endpoints.extend(table::routes_in_source(source));
    }
    assert!(endpoints.len() >= 16, "{endpoints:?}");
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
    let scene = Scene::set().await;
    let (harness, store, caller) = (&scene.harness, &scene.store, &scene.caller);
    let call = |row: Row| (row, Call::of(caller, row.endpoint, scene.subjects));
    let calls: Vec<(Row, Call)> = rows().into_iter().map(call).collect();
    let before = scene.effects().await;
    scene.all_connections_serve().await;

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
    let one = format!("/payments/{}", scene.subjects.payment);
    let anonymous = || caller.request(Method::GET, &one);
    expect_away(&bounded(anonymous().bearer_auth(GLOBEX)).await, 503);
    send(anonymous()).await.expect(401);
    assert_eq!(scene.effects().await, before);

    store.end(outage).await.unwrap();
    eventually("the service is ready", async || {
        let ready = send(caller.request(Method::GET, "/readyz")).await;
        ready.status == 200
    })
    .await;
    for (Row { endpoint, .. }, call) in &calls {
        let answer = call.answer_of_the_well().await;
        assert_eq!(answer.status, call.after, "{endpoint}: {answer:?}");
    }
    scene.all_connections_serve().await;
    // The one before, and one for the one key, however often it was asked for.
    let charges = asked(&harness.psp, "POST", "/v1/charges").await;
    assert_eq!(charges.len(), 2, "{charges:?}");
    let after = scene.effects().await;
    assert_eq!(after.stored, [2, 2, 2, 0]);
    assert_eq!((after.parked, after.reports), (1, 1));
}

#[tokio::test]
async fn a_service_that_never_had_a_store_fails_soon_is_alive_and_not_ready() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let (caller, _stop) = start_on(&harness, NO_DATABASE).await;
    let calls = rows().into_iter();
    let calls = calls.map(|row| {
        (
            row.status_without_store,
            Call::of(&caller, row.endpoint, Subjects::none()),
        )
    });
    join_all(calls.map(async |(away, call)| expect_away(&call.answer().await, away))).await;
    assert!(asked(&harness.psp, "POST", "/v1/charges").await.is_empty());
}

#[track_caller]
fn expect_away(answer: &Answer, status: u16) {
    answer.expect(status);
    if status == 503 {
        answer.expect_problem(503, "temporarily_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

/// A whole service at the end of a wire, with something for every row to be about.
struct Scene {
    harness: Harness,
    store: StoreBehindProxy,
    caller: Caller,
    subjects: Subjects,
    _stop: DropGuard,
}

/// What requests have left behind, here and at the provider.
#[derive(Debug, PartialEq, Eq)]
struct Effects {
    stored: [i64; 4],
    parked: i64,
    reports: i64,
    calls: usize,
}

impl Scene {
    async fn set() -> Self {
        let harness = Harness::create().await;
        captures(&harness.psp).await;
        books_hold(&harness, Vec::new()).await;
        let store = StoreBehindProxy::start(harness.url.clone()).await.unwrap();
        let (caller, stop) = start_on(&harness, &store.proxy.url).await;
        let payment = caller.post("k-0", &charge()).await.expect(201).payment_id();
        let subjects = Subjects {
            payment,
            kept: park(&harness).await,
            discarded: park(&harness).await,
        };
        Self {
            harness,
            store,
            caller,
            subjects,
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

    /// All places of the pool have a connection that comes through: as many as there are places are
    /// at the store at one time. If one were lost for good, there would never be so many.
    async fn all_connections_serve(&self) {
        let path = format!("/payments/{}", self.subjects.payment);
        let read = || join_all((0..2 * CONNECTIONS_MAX).map(|_| self.caller.get(&path)));
        let mut outside = self.harness.pool.acquire().await.unwrap();
        let mut held = outside.begin().await.unwrap();
        let lock = "lock table payments in access exclusive mode";
        sqlx::raw_sql(lock).execute(&mut *held).await.unwrap();
        let all_wait = Cell::new(false);
        // Nobody waits for a lock for long, so others have to follow.
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
        for answer in read().await {
            answer.expect(200);
        }
    }
}

async fn start_on(harness: &Harness, database_url: &str) -> (Caller, DropGuard) {
    // The reaper goes round all the time, so that it too is at the store when that goes away.
    let mut config = config(harness, &["--reaper-interval-ms", "20"]);
    config.application.database.database_url = database_url.to_owned();
    config.application.database.database_connections_max = CONNECTIONS_MAX;
    let application = Application::build(config).await.unwrap();
    let caller = Caller::of(application.port().unwrap());
    let shutdown = CancellationToken::new();
    tokio::spawn(application.run_until(shutdown.clone()));
    (caller, shutdown.drop_guard())
}

/// Parks a message without a type, which is beyond any handler.
async fn park(harness: &Harness) -> i64 {
    let park = "insert into parked_messages
                    (consumer_group, identity, header_names, header_values, kafka_partition,
                     kafka_offset, failed, cause, tries)
                values ('payment', $1, '{}', '{}', 0, 0, true, 'unreadable', 1) returning id";
    let parked = sqlx::query_scalar(park).bind(Uuid::new_v4());
    parked.fetch_one(&harness.pool).await.unwrap()
}
