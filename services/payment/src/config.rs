//! Settings from flags or the environment, checked before the service binds its port.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{ArgAction, Args, Parser, Subcommand};

use crate::domain::ProviderLimits;
use crate::recorder;

/// The payment service of ChargeOnce: charges and refunds each order once.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API, consume events and call the payment provider until SIGTERM.
    Serve(Box<Config>),
    /// Create or update the tables, then exit.
    Migrate(Migration),
    /// Ask a running service whether it is ready; exit with 0 if it is.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Payments")]
#[command(mut_arg("listen", |arg| arg.default_value("127.0.0.1:8082")))]
#[command(mut_arg("operator_listen", |arg| arg.default_value("127.0.0.1:9082")))]
#[command(mut_arg("kafka_group", |arg| arg.default_value("payment")))]
pub struct Config {
    /// Base URL of the payment provider.
    #[arg(long, env = "PSP_URL", default_value = "http://127.0.0.1:8090")]
    pub psp_url: String,
    /// Longest wait for the provider's response. After it the outcome is unknown, and the charger
    /// tries again with the same key.
    #[arg(long, env = "PSP_TIMEOUT_MS", default_value_t = 10_000)]
    pub psp_timeout_ms: u64,
    /// Maximum number of concurrent calls to the provider, each with its own connection. First tries, repeated
    /// tries and refunds each have this limit. Principals share it: one alone gets half.
    #[arg(long, env = "PSP_IN_FLIGHT_MAX", default_value_t = 1024)]
    pub psp_in_flight_max: usize,
    /// How long a charger owns an attempt. After that another charger takes over, so the lease must
    /// be longer than PSP_TIMEOUT_MS.
    #[arg(long, env = "LEASE_MS", default_value_t = 30_000)]
    pub lease_ms: u64,
    /// How long the provider remembers an idempotency key.
    #[arg(long, env = "PSP_KEY_WINDOW_SECONDS", default_value_t = 86_400)]
    pub psp_key_window_seconds: u64,
    /// How long before the end of that window the charger stops sending an attempt and looks it up
    /// instead. After the window the same key would charge a second time.
    #[arg(long, env = "PSP_KEY_MARGIN_SECONDS", default_value_t = 3_600)]
    pub psp_key_margin_seconds: u64,
    /// How long after the last send of a key a lookup without a result is believed. Must be longer than
    /// the provider's lookups lag behind its charges.
    #[arg(long, env = "PSP_ABSENCE_AGE_MS", default_value_t = 10_000)]
    pub psp_absence_age_ms: u64,
    /// Whether the provider can cancel a key. If not, an attempt that was sent is settled before it is
    /// closed.
    #[arg(long, env = "PSP_CAN_CANCEL_KEYS", default_value_t = true, action = ArgAction::Set)]
    pub psp_can_cancel_keys: bool,
    /// Send no charge for events before this time, such as 2026-01-31T12:00:00Z: look it up, or cancel its
    /// key if the order was rejected. For a database that was restored from a backup; see docs/restore.md.
    #[arg(long, env = "CHARGE_HOLD_EVENTS_BEFORE")]
    pub charge_hold_events_before: Option<DateTime<Utc>>,
    /// Pause between two reconciliations; 0 means only on demand.
    #[arg(long, env = "RECONCILE_INTERVAL_SECONDS", default_value_t = 300)]
    pub reconcile_interval_seconds: u64,
    /// The reconciler skips charges more recent than this: a charger may still be working on them.
    #[arg(long, env = "RECONCILE_GRACE_SECONDS", default_value_t = 60)]
    pub reconcile_grace_seconds: u64,
    /// Maximum number of charges that one reconciliation refunds because they contradict our attempts.
    /// Past it the run stops and raises an alert: so many contradictions are more likely our mistake.
    #[arg(long, env = "RECONCILE_REFUNDS_MAX", default_value_t = 100)]
    pub reconcile_refunds_max: usize,
    /// Time between two full walks, which compare old charges again. A scheduled reconciliation compares
    /// only what is new, and part of a full walk that is due.
    #[arg(
        long,
        env = "RECONCILE_WALK_INTERVAL_SECONDS",
        default_value_t = 86_400
    )]
    pub reconcile_walk_interval_seconds: u64,
    /// How far back the first reconciliation and every full walk look.
    #[arg(long, env = "RECONCILE_LOOKBACK_SECONDS", default_value_t = 7 * 86_400)]
    pub reconcile_lookback_seconds: u64,
    /// How long the reports of reconciliations are kept.
    #[arg(long, env = "RECONCILE_REPORT_RETENTION_SECONDS", default_value_t = 90 * 86_400)]
    pub reconcile_report_retention_seconds: u64,
    /// How often a charger looks for due attempts if nothing wakes it.
    #[arg(long, env = "CHARGER_POLL_MS", default_value_t = 250)]
    pub charger_poll_ms: u64,
    /// Delay after the first try with an unknown outcome. It doubles with each further try, with
    /// jitter.
    #[arg(long, env = "RETRY_BASE_MS", default_value_t = 200)]
    pub retry_base_ms: u64,
    /// Longest delay between two tries.
    #[arg(long, env = "RETRY_MAX_MS", default_value_t = 30_000)]
    pub retry_max_ms: u64,
    /// How long a direct charge request waits for its outcome. After that the client must retry
    /// with the same key.
    #[arg(long, env = "DIRECT_WAIT_MS", default_value_t = 10_000)]
    pub direct_wait_ms: u64,
    /// Maximum number of direct charge requests that wait for their outcome. Principals share these
    /// places; a request without one does not wait.
    #[arg(long, env = "DIRECT_WAITERS_MAX", default_value_t = 1_024)]
    pub direct_waiters_max: usize,
    /// Longest waits for the store: for a lease, and for a record. No setting; tests shorten them.
    #[arg(skip = leases::STORE_WAIT_MAX)]
    pub lease_wait_max: Duration,
    #[arg(skip = recorder::STORE_WAIT_MAX)]
    pub record_wait_max: Duration,
    #[command(flatten)]
    pub idempotency: idempotency::Settings,
    #[command(flatten)]
    pub application: application::Settings,
}

#[derive(Clone, Debug, Args)]
pub struct Migration {
    /// The database to migrate.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
    /// Also add the two demo principals and their API keys.
    #[arg(long)]
    pub demo_data: bool,
}

impl Config {
    /// Checks combinations of settings that the types cannot express.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.lease_ms > self.psp_timeout_ms,
            "LEASE_MS ({}) must be longer than PSP_TIMEOUT_MS ({}): a call must end before its \
             lease expires",
            self.lease_ms,
            self.psp_timeout_ms
        );
        anyhow::ensure!(
            self.psp_key_window_seconds > self.psp_key_margin_seconds,
            "PSP_KEY_WINDOW_SECONDS ({}) must be longer than PSP_KEY_MARGIN_SECONDS ({})",
            self.psp_key_window_seconds,
            self.psp_key_margin_seconds
        );
        let call_ms_max = self.lease_ms + self.psp_timeout_ms;
        anyhow::ensure!(
            self.psp_key_margin_seconds.saturating_mul(1_000) > call_ms_max,
            "PSP_KEY_MARGIN_SECONDS ({}) must be longer than LEASE_MS and PSP_TIMEOUT_MS together \
             ({call_ms_max} ms): a call leased in time must not arrive after the key window",
            self.psp_key_margin_seconds
        );
        anyhow::ensure!(
            self.psp_url.starts_with("http://"),
            "PSP_URL ({}) must start with http://: for TLS to the provider, run a proxy beside this \
             service",
            self.psp_url
        );
        anyhow::ensure!(
            self.psp_in_flight_max > 0,
            "PSP_IN_FLIGHT_MAX must be at least 1"
        );
        Ok(())
    }

    /// How long after its first try an attempt may be sent again with the same key.
    pub fn resend_max(&self) -> Duration {
        let seconds = self
            .psp_key_window_seconds
            .saturating_sub(self.psp_key_margin_seconds);
        Duration::from_secs(seconds)
    }

    pub fn provider_limits(&self) -> ProviderLimits {
        ProviderLimits {
            resend_max: self.resend_max(),
            absence_age: Duration::from_millis(self.psp_absence_age_ms),
            can_cancel: self.psp_can_cancel_keys,
            hold_before: self.charge_hold_events_before,
        }
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}
