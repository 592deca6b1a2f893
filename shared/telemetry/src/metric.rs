//! Metrics in Prometheus text, and the names that dashboards and tests rely on.

use std::sync::OnceLock;

use anyhow::Context as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

pub const HTTP_REQUESTS: &str = "http_requests_total";
pub const HTTP_DURATION: &str = "http_request_duration_seconds";
pub const IDEMPOTENCY_OUTCOMES: &str = "idempotency_outcomes_total";
pub const OUTBOX_PUBLISHED: &str = "outbox_published_total";
pub const OUTBOX_WAIT: &str = "outbox_wait_seconds";
pub const OUTBOX_BATCH: &str = "outbox_batch_size";
pub const OUTBOX_UNPUBLISHED: &str = "outbox_unpublished_rows";
pub const OUTBOX_OLDEST: &str = "outbox_oldest_unpublished_seconds";
pub const INBOX_PROCESSED: &str = "inbox_processed_total";
pub const INBOX_DUPLICATES: &str = "inbox_duplicates_total";
pub const INBOX_RETRIES: &str = "inbox_retries_total";
pub const INBOX_PARKED: &str = "inbox_parked_total";
pub const INBOX_PARKED_NOW: &str = "inbox_parked_messages";
pub const INBOX_BATCH: &str = "inbox_batch_size";
pub const INBOX_LAG: &str = "inbox_lag_messages";
pub const PSP_CALLS: &str = "psp_calls_total";
pub const PSP_DURATION: &str = "psp_call_duration_seconds";
pub const CHARGES_IN_FLIGHT: &str = "charges_in_flight";
pub const PAYMENTS_OPEN: &str = "payments_open";
pub const PAYMENTS_OLDEST: &str = "payments_oldest_open_seconds";
pub const REFUNDS_OPEN: &str = "refunds_open";
pub const RECEIPT_TRIES: &str = "receipt_tries_total";
pub const SMTP_DURATION: &str = "smtp_dialogue_duration_seconds";

const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
const SIZES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

pub(crate) fn init() -> anyhow::Result<()> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), SIZES)?
        .install_recorder()
        .context("setting up metrics")?;
    // Only the first recorder can be installed, so there is nothing to overwrite.
    let _ = HANDLE.set(handle);
    Ok(())
}

/// The body of `GET /metrics`; empty before [`crate::init`].
pub fn render() -> String {
    let Some(handle) = HANDLE.get() else {
        return String::new();
    };
    handle.run_upkeep();
    handle.render()
}
