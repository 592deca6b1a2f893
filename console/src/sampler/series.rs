//! The charts: one point per second, the last ten minutes.

use std::collections::VecDeque;

use super::latency::Latency;
use super::metrics::Totals;
use crate::app::App;
use crate::state::Point;

const POINTS_MAX: usize = 600;
/// Points over which the rate is averaged.
const RATE_POINTS: usize = 5;

#[derive(Default)]
pub(super) struct Series {
    points: VecDeque<Point>,
    /// Accepted and shipped orders at the last point, to take the differences.
    last: Option<(i64, Option<f64>, Option<f64>)>,
}

impl Series {
    pub(super) fn add(&mut self, app: &App, t: i64, totals: &Totals, latency: &mut Latency) {
        let (accepted, shipped) = (accepted(app, totals), shipped(app, totals));
        let since = self.last.replace((t, accepted, shipped));
        let Some((last_t, last_accepted, last_shipped)) = since else {
            return;
        };
        let seconds = (t - last_t).max(1) as f64;
        let per_s =
            |now: Option<f64>, before: Option<f64>| Some((now? - before?).max(0.0) / seconds);
        let percentiles = latency.percentiles();
        let point = Point {
            t,
            accepted: per_s(accepted, last_accepted),
            shipped: per_s(shipped, last_shipped),
            p50_ms: percentiles.map(|it| it.0),
            p99_ms: percentiles.map(|it| it.1),
            backlog: backlog(app, totals),
        };
        if self.points.back().is_some_and(|last| last.t == t) {
            return;
        }
        if self.points.len() >= POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    pub(super) fn points(&self) -> Vec<Point> {
        self.points.iter().cloned().collect()
    }

    /// Accepted orders per second over the last points.
    pub(super) fn rate_per_s(&self) -> Option<f64> {
        let latest = self.points.iter().rev().take(RATE_POINTS);
        let rates: Vec<f64> = latest.filter_map(|point| point.accepted).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        (!rates.is_empty()).then(|| (mean * 10.0).round() / 10.0)
    }

    /// After a reset the counters begin at zero.
    pub(super) fn restart(&mut self) {
        self.last = None;
    }
}

/// Orders that were placed with a key, and orders with an id that the client chose.
fn accepted(app: &App, totals: &Totals) -> Option<f64> {
    let urls = &app.endpoints().urls.order;
    let with_key = ["route=\"POST /orders\"", "outcome=\"placed\""];
    let with_id = ["method=\"PUT\"", "route=\"/orders/{id}\"", "status=\"201\""];
    let posted = totals.total(urls, "idempotency_outcomes_total", &with_key);
    let put = totals.total(urls, "http_requests_total", &with_id);
    let is_known = urls.iter().any(|url| totals.is_up(url) == Some(true));
    is_known.then(|| posted.unwrap_or_default() + put.unwrap_or_default())
}

fn shipped(app: &App, totals: &Totals) -> Option<f64> {
    let urls = &app.endpoints().urls.fulfilment;
    let is_known = urls.iter().any(|url| totals.is_up(url) == Some(true));
    let total = totals.total(
        urls,
        "outbox_published_total",
        &["type=\"fulfilment.shipped\""],
    );
    is_known.then(|| total.unwrap_or_default())
}

/// Events that wait in an outbox or in the topic, and attempts without an outcome.
fn backlog(app: &App, totals: &Totals) -> Option<f64> {
    let urls = &app.endpoints().urls;
    let all = [
        &urls.order[..],
        &urls.payment,
        &urls.fulfilment,
        &urls.receipt,
    ]
    .concat();
    let parts = [
        "outbox_unpublished_rows",
        "inbox_lag_messages",
        "payments_open",
    ];
    let parts = parts
        .into_iter()
        .filter_map(|name| totals.total(&all, name, &[]));
    parts.fold(None, |sum: Option<f64>, part| {
        Some(sum.unwrap_or_default() + part)
    })
}
