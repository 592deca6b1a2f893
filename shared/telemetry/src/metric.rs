//! Metrics in Prometheus text, and their names. Dashboards, alerts and tests rely on these names.
//!
//! The exporter never forgets a series. So the values of labels come from fixed lists in the code: no
//! value is text that a client, a message or another server sent.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

/// Requests served, by method, route and status.
pub const HTTP_REQUESTS: &str = "http_requests_total";
/// Time to serve a request, by method, route and status.
pub const HTTP_DURATION_SECONDS: &str = "http_request_duration_seconds";
/// Requests with an idempotency key, by route and outcome.
pub const IDEMPOTENCY_OUTCOMES: &str = "idempotency_outcomes_total";
/// How long orders wait on their way, as the service that accepts them sees it.
pub const ORDERS_WAIT_SECONDS: &str = "orders_wait_seconds";
/// New orders that were shed because others wait too long.
pub const ORDERS_SHED: &str = "orders_shed_total";
/// Events that the broker acknowledged, by type.
pub const OUTBOX_PUBLISHED: &str = "outbox_published_total";
/// Time from writing an event to its acknowledgement by the broker.
pub const OUTBOX_WAIT_SECONDS: &str = "outbox_wait_seconds";
/// Events per batch of the relay.
pub const OUTBOX_BATCH_SIZE: &str = "outbox_batch_size";
/// Events not yet published.
pub const OUTBOX_UNPUBLISHED_ROWS: &str = "outbox_unpublished_rows";
/// Age of the oldest event not yet published.
pub const OUTBOX_OLDEST_SECONDS: &str = "outbox_oldest_unpublished_seconds";
/// Orders whose events the relay holds because they cannot be delivered now, by cause.
pub const OUTBOX_HELD_ORDERS: &str = "outbox_held_orders";
/// Number of times that the broker was found to have lost delivered events.
pub const OUTBOX_DATA_LOSSES: &str = "outbox_data_losses_total";
/// New messages processed.
pub const INBOX_PROCESSED: &str = "inbox_processed_total";
/// Messages skipped because they were processed before.
pub const INBOX_DUPLICATES: &str = "inbox_duplicates_total";
/// Batches that failed and are retried.
pub const INBOX_RETRIES: &str = "inbox_retries_total";
/// Messages parked since the process started.
pub const INBOX_PARKED: &str = "inbox_parked_total";
/// Messages parked now.
pub const INBOX_PARKED_MESSAGES: &str = "inbox_parked_messages";
/// Messages per batch of the consumer.
pub const INBOX_BATCH_SIZE: &str = "inbox_batch_size";
/// Messages in the assigned partitions that are not processed yet.
pub const INBOX_LAG_MESSAGES: &str = "inbox_lag_messages";
/// Logs of a partition that were replaced, and are read again from their start.
pub const INBOX_LOG_REPLACED: &str = "inbox_log_replaced_total";
/// Kafka clients that a consumer replaced because they hung or lost all brokers, by reason.
pub const INBOX_CLIENTS_REPLACED: &str = "inbox_clients_replaced_total";
/// 1 while a worker makes no progress, by worker; otherwise 0.
pub const WORKER_STALLED: &str = "worker_stalled";
/// Requests to the operator listener without the token of an operator.
pub const OPERATOR_REQUESTS_REJECTED: &str = "operator_requests_rejected_total";
/// Changes of operators that left no audit row: a defect.
pub const OPERATOR_CHANGES_UNAUDITED: &str = "operator_changes_unaudited_total";
/// Calls to the provider, by call and outcome.
pub const PSP_CALLS: &str = "psp_calls_total";
/// Time of a call to the provider, by call.
pub const PSP_DURATION_SECONDS: &str = "psp_call_duration_seconds";
/// Calls to the provider that wait for a response.
pub const CHARGES_IN_FLIGHT: &str = "charges_in_flight";
/// Payment attempts without a final outcome, by status.
pub const PAYMENTS_OPEN: &str = "payments_open";
/// Age of the oldest open payment attempt, by status.
pub const PAYMENTS_OLDEST_SECONDS: &str = "payments_oldest_open_seconds";
/// Refunds without a final outcome.
pub const REFUNDS_OPEN: &str = "refunds_open";
/// Refunds that the provider will not make. An operator settles them.
pub const REFUNDS_FAILED: &str = "refunds_failed";
/// Charges in the provider's books that no attempt explains. An operator settles them.
pub const UNEXPLAINED_CHARGES: &str = "unexplained_charges";
/// Reconciliations that stopped because they would have opened too many refunds.
pub const RECONCILIATIONS_STOPPED: &str = "reconciliations_stopped_total";
/// Mails that wait for an operator, by status: held, failed or unknown.
pub const MAILS_FOR_OPERATOR: &str = "mails_for_operator";
/// Events about which no mail was sent, because neither they nor an earlier mail name the customer.
pub const MAILS_WITHOUT_CUSTOMER: &str = "mails_without_customer_total";
/// Tries to send a mail, by outcome.
pub const RECEIPT_TRIES: &str = "receipt_tries_total";
/// Time to send one mail to the SMTP server.
pub const SMTP_DURATION_SECONDS: &str = "smtp_dialogue_duration_seconds";
/// Orders that the canary placed, or tried to place.
pub const CANARY_ORDERS: &str = "canary_orders_total";
/// Of these, orders that did not ship with exactly one charge, by reason.
pub const CANARY_FAILURES: &str = "canary_failures_total";
/// Time from the canary's request until its order had shipped and was counted.
pub const CANARY_DURATION_SECONDS: &str = "canary_duration_seconds";
/// When an order of the canary last shipped with one charge, in seconds since 1970; at first the start.
pub const CANARY_LAST_SUCCESS_SECONDS: &str = "canary_last_success_seconds";

/// Buckets of histograms whose name ends in `_seconds`.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];
/// Buckets of histograms whose name ends in `_size`.
const SIZES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];

static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();

/// Records metrics from now on. [`crate::init`] calls it; a test that reads metrics calls it alone. A
/// second call is an error.
pub fn init() -> Result<(), BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), SIZES)?
        .install_recorder()?;
    // Never set twice: a second recorder cannot be installed.
    let _ = HANDLE.set(handle);
    Ok(())
}

/// The body of `GET /metrics`. Empty before [`crate::init`].
pub fn render() -> String {
    let Some(handle) = HANDLE.get() else {
        return String::new();
    };
    handle.run_upkeep();
    handle.render()
}
