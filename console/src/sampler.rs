//! Builds the state: at most twice a second while a page is open, and rarely otherwise.
//!
//! A sample reads a bounded number of rows and the services' metrics, so its cost does not follow the
//! rate of orders.

mod armed;
mod deaths;
mod flow;
mod latency;
pub(crate) mod metrics;
mod proof;
mod series;

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use endpoints::Service;
use tokio::time::Instant;
use uuid::Uuid;

use crate::actions::kill_mid_charge::replica_name;
use crate::app::App;
use crate::controls::Up;
use crate::queries;
use crate::state::{OrderLine, State};

pub(crate) use deaths::watch_processes;

/// Between two states while a page is open.
const INTERVAL: Duration = Duration::from_millis(500);
/// Between two samples while no page is open: enough for the charts to have no hole.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Between two reads of the services' metrics.
const METRICS_INTERVAL: Duration = Duration::from_secs(1);
/// An unchanged state is sent again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Orders in the list of the newest.
const NEWEST_MAX: i64 = 20;

/// Samples until the console stops.
pub(crate) async fn run(app: Arc<App>) {
    let mut sampler = Sampler::default();
    loop {
        let has_pages = app.hub.pages() > 0;
        let is_resetting = app.hub.memory().is_resetting;
        let started = Instant::now();
        if !is_resetting {
            tokio::select! {
                () = app.stop.cancelled() => return,
                () = sampler.sample(&app, has_pages) => {}
            }
        }
        let interval = if has_pages { INTERVAL } else { IDLE_INTERVAL };
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep_until(started + interval) => sampler.was_woken = false,
            () = app.wake.notified() => {
                sampler.was_woken = true;
                // Wake-ups must not exceed the rate either.
                let earliest = sampler.published_at.map(|at| at + INTERVAL);
                tokio::time::sleep_until(earliest.unwrap_or(started)).await;
            }
        }
    }
}

#[derive(Default)]
struct Sampler {
    metrics: metrics::Totals,
    metrics_at: Option<Instant>,
    series: series::Series,
    latency: latency::Latency,
    checker: proof::Checker,
    orders: Vec<OrderLine>,
    last: Option<State>,
    published_at: Option<Instant>,
    was_woken: bool,
    resets: u64,
}

impl Sampler {
    async fn sample(&mut self, app: &App, has_pages: bool) {
        let resets = app.hub.memory().resets;
        if resets != self.resets {
            self.series.restart();
            *self = Self {
                resets,
                series: std::mem::take(&mut self.series),
                ..Self::default()
            };
        }
        let is_due = self
            .metrics_at
            .is_none_or(|at| at.elapsed() >= METRICS_INTERVAL);
        if is_due {
            self.metrics_at = Some(Instant::now());
            tokio::join!(self.metrics.read(app), armed::refresh(app));
        }
        // A database may be down: then the list stays as it was.
        if let Ok(orders) = self.read_orders(app).await {
            self.orders = orders;
        }
        self.checker.check(app, has_pages).await;
        if is_due {
            let now = Utc::now().timestamp();
            self.series.add(app, now, &self.metrics, &mut self.latency);
        }
        let state = self.build(app).await;
        self.publish(app, state);
    }

    async fn read_orders(&mut self, app: &App) -> anyhow::Result<Vec<OrderLine>> {
        let databases = &app.pools.databases;
        let followed: Vec<Uuid> = app.hub.memory().followed.iter().copied().collect();
        let rows = queries::newest(&databases.order, NEWEST_MAX).await?;
        self.latency.see(&rows);
        let open = self.latency.open();
        self.latency
            .see(&queries::by_id(&databases.order, &open).await?);
        queries::lines(&databases.psp, &rows, &followed).await
    }

    async fn build(&self, app: &App) -> State {
        let up = self.up(app);
        let processes = app.options.controls.processes(app.endpoints(), &up).await;
        let proof = self.checker.proof(app);
        let broker_up = processes
            .iter()
            .find(|process| process.kind == "broker")
            .map(|process| process.state == "running");
        let flow = flow::build(app, &self.metrics, &up, broker_up, &proof);
        let memory = app.hub.memory();
        State {
            mode: app.options.controls.mode(),
            jaeger_url: app.options.jaeger_url.clone(),
            rate_per_s: self.series.rate_per_s(),
            proof,
            flow,
            processes,
            orders: self.orders.clone(),
            series: self.series.points(),
            marks: memory.marks.iter().cloned().collect(),
            armed: memory.armed.clone(),
        }
    }

    /// Sends the state if it changed, if a page just opened, or if the last one is old.
    fn publish(&mut self, app: &App, state: State) {
        let is_old = self
            .published_at
            .is_none_or(|at| at.elapsed() >= REPEAT_INTERVAL);
        if self.was_woken || is_old || self.last.as_ref() != Some(&state) {
            app.hub.publish(Utc::now(), &state);
            self.published_at = Some(Instant::now());
            self.last = Some(state);
        }
    }

    /// Which processes of the services responded to the last read of their metrics.
    fn up(&self, app: &App) -> Up {
        let processes = Service::ALL.into_iter().flat_map(|service| {
            let urls = app.endpoints().urls.get(service).iter().enumerate();
            urls.map(move |(index, url)| (replica_name(service, index), url))
        });
        let all = processes.filter_map(|(name, url)| Some((name, self.metrics.is_up(url)?)));
        all.collect()
    }
}
