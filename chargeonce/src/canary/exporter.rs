//! Exports the canary's results as metrics.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use telemetry::metric;
use tokio::net::TcpListener;

use super::one_order::{Failure, OrderReport};

/// Sets up the metrics. Every series exists from the start: an alert cannot see the first increase of a new
/// series.
pub(super) fn init() -> anyhow::Result<()> {
    metric::init().context("setting up metrics")?;
    metrics::counter!(metric::CANARY_ORDERS).increment(0);
    for reason in Failure::REASONS {
        metrics::counter!(metric::CANARY_FAILURES, "reason" => reason).increment(0);
    }
    // Until the first success, the alert CanarySilent counts from the start of the process.
    metrics::gauge!(metric::CANARY_LAST_SUCCESS_SECONDS).set(now_seconds());
    Ok(())
}

pub(super) fn record(report: &OrderReport) {
    metrics::counter!(metric::CANARY_ORDERS).increment(1);
    metrics::histogram!(metric::CANARY_DURATION_SECONDS).record(report.took.as_secs_f64());
    match &report.result {
        Ok(()) => metrics::gauge!(metric::CANARY_LAST_SUCCESS_SECONDS).set(now_seconds()),
        Err(failure) => {
            metrics::counter!(metric::CANARY_FAILURES, "reason" => failure.reason()).increment(1);
        }
    }
}

/// Serves `GET /metrics` until the process ends.
pub(super) async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let text = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    let metrics = get(async move || (text, metric::render()));
    let router = Router::new().route("/metrics", metrics);
    axum::serve(listener, router)
        .await
        .context("serving metrics")
}

fn now_seconds() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs_f64()
}
