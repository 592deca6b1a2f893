//! Settings, from flags or environment, checked before a port is bound.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, value_parser};

/// Longest window of a key: a year. The table holds every key of a window.
const KEY_WINDOW_SECONDS_MAX: u64 = 366 * 24 * 60 * 60;

/// The payment service of ChargeOnce.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Charge what was ordered or asked for until SIGTERM.
    Serve(Box<Config>),
    /// Bring the database up to date and exit.
    Migrate(Migration),
    /// Exit with 0 if the service that listens here says that it is ready.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
pub struct Config {
    /// Address of the API, health, metrics and operator routes; port 0 picks a free one.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8082")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub database: service_kit::database::Settings,
    #[command(flatten)]
    pub kafka: service_kit::kafka::Settings,
    #[command(flatten)]
    pub retention: service_kit::retention::Settings,
    /// Consumer group.
    #[arg(long, env = "KAFKA_GROUP", default_value = "payment")]
    pub kafka_group: String,
    /// Base URL of the payment provider.
    #[arg(long, env = "PSP_URL", default_value = "http://127.0.0.1:8090")]
    pub psp_url: String,
    /// Longest wait for the provider's answer. Past it the outcome is unknown and asked for again.
    #[arg(long, env = "PSP_TIMEOUT_MS", default_value_t = 10_000)]
    pub psp_timeout_ms: u64,
    /// Most calls to the provider at once, for each of first tries, repeated tries and refunds.
    #[arg(long, env = "PSP_IN_FLIGHT_MAX", default_value_t = 256)]
    pub psp_in_flight_max: usize,
    /// How long a charger owns an attempt. Another takes over when this has passed, so it must be
    /// longer than the provider's time-out.
    #[arg(long, env = "LEASE_MS", default_value_t = 30_000)]
    pub lease_ms: u64,
    /// How long the provider remembers a key.
    #[arg(long, env = "PSP_KEY_WINDOW_SECONDS", default_value_t = 86_400)]
    pub psp_key_window_seconds: u64,
    /// How long before that window closes an attempt is no longer sent, but looked up: past the
    /// window the same key would charge a second time.
    #[arg(long, env = "PSP_KEY_MARGIN_SECONDS", default_value_t = 3_600)]
    pub psp_key_margin_seconds: u64,
    /// Pause between two sweeps of the reconciler; 0: only on demand.
    #[arg(long, env = "RECONCILE_INTERVAL_SECONDS", default_value_t = 300)]
    pub reconcile_interval_seconds: u64,
    /// Charges younger than this are left to the chargers that are probably at them.
    #[arg(long, env = "RECONCILE_GRACE_SECONDS", default_value_t = 60)]
    pub reconcile_grace_seconds: u64,
    /// How long a charge under a key of ours waits for its attempt before it goes back: after a
    /// database was restored, its orders are heard of again.
    #[arg(long, env = "RECONCILE_ORPHAN_GRACE_SECONDS", default_value_t = 86_400)]
    pub reconcile_orphan_grace_seconds: u64,
    /// How far back a scheduled sweep looks.
    #[arg(long, env = "RECONCILE_LOOKBACK_SECONDS", default_value_t = 7 * 86_400)]
    pub reconcile_lookback_seconds: u64,
    /// How often the charger looks for due attempts without being woken.
    #[arg(long, env = "CHARGER_POLL_MS", default_value_t = 250)]
    pub charger_poll_ms: u64,
    /// Delay after the first try that told nothing; doubles from there, with jitter.
    #[arg(long, env = "RETRY_BASE_MS", default_value_t = 200)]
    pub retry_base_ms: u64,
    /// Longest such delay.
    #[arg(long, env = "RETRY_MAX_MS", default_value_t = 30_000)]
    pub retry_max_ms: u64,
    /// How long the caller of a direct charge waits for its outcome before it is told to come back.
    #[arg(long, env = "DIRECT_WAIT_MS", default_value_t = 10_000)]
    pub direct_wait_ms: u64,
    /// How long an idempotency key is honoured.
    #[arg(long, env = "KEY_WINDOW_SECONDS", default_value_t = 86_400)]
    #[arg(value_parser = value_parser!(u64).range(1..=KEY_WINDOW_SECONDS_MAX))]
    pub key_window_seconds: u64,
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
    /// What the types cannot say.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.lease_ms > self.psp_timeout_ms,
            "LEASE_MS ({}) must be longer than PSP_TIMEOUT_MS ({}): a call must end before its \
             lease does",
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
             ({call_ms_max} ms): a call that was leased in time must not arrive too late",
            self.psp_key_margin_seconds
        );
        anyhow::ensure!(
            self.psp_url.starts_with("http://"),
            "PSP_URL ({}) must be an http:// URL: TLS to the provider is left to a proxy beside this \
             service",
            self.psp_url
        );
        anyhow::ensure!(
            self.psp_in_flight_max > 0,
            "PSP_IN_FLIGHT_MAX must be at least 1"
        );
        Ok(())
    }

    /// How long after its first try an attempt may be sent again.
    pub fn resend_max(&self) -> Duration {
        let seconds = self
            .psp_key_window_seconds
            .saturating_sub(self.psp_key_margin_seconds);
        Duration::from_secs(seconds)
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}
