//! Asks the other services how long orders wait there.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use service_kit::{Pressure, Waits};
use telemetry::metric;
use tokio_util::sync::CancellationToken;

use super::Admission;

/// Pause between two rounds.
const INTERVAL: Duration = Duration::from_millis(250);
/// Longest wait for a response.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The type of the problem that every service and every release responds with if it does not have a route.
const UNKNOWN_ROUTE: &str = "urn:chargeonce:problem:not_found";

/// Keeps [`Admission`] up to date.
pub struct Watcher {
    admission: Arc<Admission>,
    /// The queues of this service.
    own: Pressure,
    /// `GET /pressure` of the services that orders pass.
    urls: Vec<Url>,
    client: reqwest::Client,
}

impl Watcher {
    /// `services`: the base URLs of the services that orders pass.
    pub fn new(admission: Arc<Admission>, own: Pressure, services: &[Url]) -> anyhow::Result<Self> {
        let urls = services.iter().map(|url| url.join("/pressure"));
        Ok(Self {
            admission,
            own,
            urls: urls.collect::<Result<_, _>>().context("PRESSURE_URLS")?,
            client: reqwest::Client::builder().timeout(TIMEOUT).build()?,
        })
    }

    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut was_reached = true;
        loop {
            tokio::select! {
                is_reached = self.step() => {
                    if was_reached && !is_reached {
                        tracing::warn!("a service does not report its pressure: its silence counts instead");
                    }
                    was_reached = is_reached;
                }
                () = shutdown.cancelled() => return Ok(()),
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = shutdown.cancelled() => {}
            }
        }
    }

    /// One round. Returns whether all services responded.
    pub async fn step(&self) -> bool {
        let reports = join_all(self.urls.iter().map(|url| self.ask(url))).await;
        let is_reached = reports.iter().all(Result::is_ok);
        let mut longest = Waits::default();
        for waits in reports.into_iter().flatten() {
            longest.seconds = longest.seconds.max(waits.seconds);
            for (principal, seconds) in waits.seconds_by_principal {
                let known = longest.seconds_by_principal.entry(principal).or_default();
                *known = known.max(seconds);
            }
        }
        if !is_reached {
            // It may be down, or only unreachable from here. Events that arrive show that orders move.
            let silence = self.admission.silence().as_secs_f64();
            longest.seconds = longest.seconds.max(silence);
        }
        longest.seconds += self.own.waits().seconds;
        metrics::gauge!(metric::ORDERS_WAIT_SECONDS).set(longest.seconds);
        self.admission.set_waits(longest);
        is_reached
    }

    /// A service of a release without this route responds with its own 404. It is up, so it counts as one without a wait.
    /// Without this rule, the time since the oldest unanswered order would count, and during an upgrade another replica
    /// may consume the events that answer this replica's orders.
    async fn ask(&self, url: &Url) -> reqwest::Result<Waits> {
        let response = self.client.get(url.clone()).send().await?;
        let Err(error) = response.error_for_status_ref() else {
            return response.json().await;
        };
        if response.status() == StatusCode::NOT_FOUND && is_own_problem(response).await {
            return Ok(Waits::default());
        }
        Err(error)
    }
}

/// Whether the response to an unknown route is from one of our services. A balancer without a backend may respond with 404
/// too, and some of them even to `/healthz` with 200.
async fn is_own_problem(response: reqwest::Response) -> bool {
    #[derive(Deserialize)]
    struct Body {
        #[serde(rename = "type")]
        kind: String,
    }
    let body = response.json::<Body>().await;
    body.is_ok_and(|it| it.kind == UNKNOWN_ROUTE)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use sqlx::postgres::PgPoolOptions;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;
    use crate::domain::admission::Admittance;

    /// One round that asks this server, after a minute without events. Returns whether the server reported its pressure, and
    /// the decision about a new order.
    async fn ask(server: Router) -> (bool, Admittance) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, server).await });
        let admission = Arc::new(Admission::new(Duration::from_secs(10)));
        admission.state().unanswered_since = Instant::now().checked_sub(Duration::from_secs(60));
        let services = [url.parse().unwrap()];
        let watcher = Watcher::new(admission.clone(), Pressure::default(), &services).unwrap();
        (watcher.step().await, admission.admit("anyone"))
    }

    #[tokio::test]
    async fn service_without_the_route_does_not_stop_orders() {
        let pool = PgPoolOptions::new().connect_lazy("postgres://localhost:1/none");
        let service = service_kit::http::finish(Router::new(), pool.unwrap());
        let (is_reached, admittance) = ask(service).await;
        assert!(is_reached);
        assert_ne!(admittance, Admittance::Shed);
    }

    /// As a balancer responds whose service is down.
    #[tokio::test]
    async fn foreign_404_counts_as_silence() {
        let (is_reached, admittance) = ask(Router::new()).await;
        assert!(!is_reached);
        assert_eq!(admittance, Admittance::Shed);
    }
}
