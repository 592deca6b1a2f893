//! New orders are shed while orders on their way wait too long. Replays and reads are not.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use order::config::Config;
use service_kit::Waits;
use service_kit::pressure::principal_key;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::harness::{ACME, GLOBEX, Harness, order, orders_stored};
use testkit::polling::eventually;

const WAIT_MAX_SECONDS: u64 = 30;

/// A service that reports the waits that the test sets.
#[derive(Clone, Default)]
struct Reporter(Arc<Mutex<Waits>>);

impl Reporter {
    fn set(&self, common: f64, own: &[(&str, f64)]) {
        let own = own.iter().map(|(name, it)| (principal_key(name), *it));
        *self.0.lock().unwrap() = Waits {
            seconds: common,
            seconds_by_principal: own.collect(),
        };
    }

    async fn serve(&self) -> String {
        let report = async |State(it): State<Self>| Json(it.0.lock().unwrap().clone());
        let routes = Router::new().route("/pressure", get(report));
        let routes = routes.with_state(self.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        format!("http://127.0.0.1:{port}")
    }
}

async fn start(reporter: &Reporter) -> Harness {
    let url = reporter.serve().await.parse().unwrap();
    Harness::start_with(|config: &mut Config| {
        config.order_wait_max_seconds = WAIT_MAX_SECONDS;
        config.pressure_urls = vec![url];
    })
    .await
}

/// Places new orders until one has this status; returns how many were accepted before.
async fn until(harness: &Harness, api_key: &str, status: u16) -> i64 {
    let mut accepted = 0;
    eventually("orders get this status", async || {
        let key = Uuid::new_v4().to_string();
        let response = harness.post_as(api_key, &key, &order()).await;
        accepted += i64::from(response.status == 201);
        response.status == status
    })
    .await;
    accepted
}

#[tokio::test]
async fn only_new_orders_are_shed_while_others_wait() {
    let reporter = Reporter::default();
    let harness = start(&reporter).await;
    let first = harness.post("k-1", &order()).await;
    let id = Uuid::new_v4();
    harness.put(id, &order()).await.expect(201);

    reporter.set(100.0, &[]);
    let accepted = 2 + until(&harness, ACME, 503).await;
    let shed = harness.post("k-2", &order()).await;
    let problem = shed.expect_problem(503, "overloaded");
    assert_eq!(problem["retryable"], true);
    assert_eq!(shed.header("retry-after"), Some("3"));
    let shed = harness.put(Uuid::new_v4(), &order()).await;
    shed.expect_problem(503, "overloaded");
    assert_eq!(harness.stored().await.orders, accepted, "nothing is stored");

    let replayed = harness.post("k-1", &order()).await;
    assert!(replayed.is_replay());
    assert_eq!(replayed.body, first.body);
    harness.put(id, &order()).await.expect(200);
    harness.get(&format!("/orders/{id}")).await.expect(200);

    reporter.set(0.0, &[]);
    until(&harness, ACME, 201).await;
    harness.post("k-2", &order()).await.expect(201);
}

#[tokio::test]
async fn backlog_of_one_principal_sheds_only_its_orders() {
    let reporter = Reporter::default();
    reporter.set(0.0, &[("acme", 100.0)]);
    let harness = start(&reporter).await;
    until(&harness, ACME, 503).await;
    for n in 0..5 {
        let key = format!("k-{n}");
        harness.post_as(GLOBEX, &key, &order()).await.expect(201);
    }
    harness.post("k-acme", &order()).await.expect(503);
}

#[tokio::test]
async fn service_that_reports_nothing_does_not_stop_orders() {
    let harness = Harness::start_with(|config: &mut Config| {
        config.order_wait_max_seconds = WAIT_MAX_SECONDS;
        config.pressure_urls = vec!["http://127.0.0.1:1".parse().unwrap()];
    })
    .await;
    harness.post("k-1", &order()).await.expect(201);
    assert_eq!(harness.stored().await, orders_stored(1));
}
