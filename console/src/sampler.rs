//! Builds the state: at most twice a second while a page is open, and rarely otherwise.
//!
//! A sample reads a bounded number of rows and the services' metrics, so its cost does not follow the
//! rate of orders.

mod armed;
mod containers;
mod deaths;
mod flow;
mod latency;
pub(crate) mod metrics;
pub(crate) mod proof;
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
/// The same while more than `BUSY_PER_S` orders arrive per second.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
const BUSY_PER_S: f64 = 50.0;
/// Between two samples while no page is open, so that the charts have no gap.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Between two reads of the services' metrics.
const METRICS_INTERVAL: Duration = Duration::from_millis(990);
/// An unchanged state is sent again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for the newest orders, and the pause after a failure: the rest of the state must be built
/// even while a database is down.
const ORDERS_TIMEOUT: Duration = Duration::from_millis(800);
const ORDERS_RETRY: Duration = Duration::from_secs(2);
/// Orders in the list of the newest.
const NEWEST_MAX: i64 = 20;

/// Samples until the console stops.
pub(crate) async fn run(app: Arc<App>) {
    let mut sampler = Sampler::default();
    // The first sample waits for the metrics of every service, also of one that is paused. A page that opens
    // before shows at least the processes.
    let state = sampler.build(&app).await;
    sampler.publish(&app, state);
    loop {
        let has_pages = app.hub.pages() > 0;
        let is_resetting = app.hub.memory().is_resetting;
        let started = Instant::now();
        if !is_resetting {
            tokio::select! {
                () = app.stop.cancelled() => return,
                () = sampler.sample(&app) => {}
            }
        }
        let interval = match (has_pages, app.is_busy()) {
            (true, false) => INTERVAL,
            (true, true) => BUSY_INTERVAL,
            (false, _) => IDLE_INTERVAL,
        };
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = tokio::time::sleep_until(started + interval) => sampler.was_woken = false,
            () = app.wake.notified() => {
                sampler.was_woken = true;
                // Wake-ups must not raise the rate of states either.
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
    orders: Vec<OrderLine>,
    /// When to read them again after a failure.
    orders_at: Option<Instant>,
    /// Which processes responded last.
    up: Up,
    last: Option<State>,
    published_at: Option<Instant>,
    was_woken: bool,
    resets: u64,
}

impl Sampler {
    async fn sample(&mut self, app: &App) {
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
            self.look(app).await;
        }
        if self.orders_at.is_none_or(|at| Instant::now() >= at) {
            let read = tokio::time::timeout(ORDERS_TIMEOUT, self.read_orders(app)).await;
            match read {
                Ok(Ok(orders)) => self.orders = orders,
                // A database is down: the list stays as it is until the next read.
                _ => self.orders_at = Some(Instant::now() + ORDERS_RETRY),
            }
        }
        if is_due {
            let now = Utc::now().timestamp();
            self.series.add(app, now, &self.metrics, &mut self.latency);
            app.set_busy(
                self.series
                    .rate_per_s()
                    .is_some_and(|rate| rate > BUSY_PER_S),
            );
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
        let controls = &app.options.controls;
        let processes = controls.processes(&self.up).await;
        let proof = proof::latest(app);
        let broker_up = processes
            .iter()
            .find(|process| process.kind == "broker")
            .map(|process| process.state == "running");
        let flow = flow::build(app, &self.metrics, &self.up, broker_up, &proof);
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

    /// Notes which processes responded to the last read of their metrics.
    async fn look(&mut self, app: &App) {
        let processes = Service::ALL.into_iter().flat_map(|service| {
            let urls = app.endpoints().urls.get(service).iter().enumerate();
            urls.map(move |(index, url)| (replica_name(service, index), url))
        });
        let all = processes.filter_map(|(name, url)| Some((name, self.metrics.is_up(url)?)));
        let mut up: Up = all.collect();
        if app.options.controls.system().is_none() {
            containers::add_infrastructure(app, &mut up).await;
            containers::compare(app, &self.up, &up);
        }
        self.up = up;
    }
}
