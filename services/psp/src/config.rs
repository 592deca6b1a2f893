//! Settings from flags or the environment, checked before the service binds its port.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::TimeDelta;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// The mock payment provider of ChargeOnce: captures, refunds, and injects faults on request.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API until SIGTERM.
    Serve(Config),
    /// Create or update the tables, then exit.
    Migrate(Migration),
    /// Ask a running service whether it is ready; exit with 0 if it is.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
#[command(mut_arg("operator_listen", |arg| arg.default_value("127.0.0.1:9085")))]
pub struct Config {
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub charging: Charging,
    #[command(flatten, next_help_heading = "Operators")]
    pub operators: operators::Settings,
    #[command(flatten, next_help_heading = "Database")]
    pub database: service_kit::database::Settings,
}

#[derive(Clone, Debug, Args)]
pub struct Migration {
    /// The database to migrate.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
}

/// How the provider treats keys and test cards.
#[derive(Clone, Debug, Args)]
pub struct Charging {
    /// How long the provider remembers a key. After that the same key charges again.
    #[arg(long, env = "PSP_KEY_WINDOW_SECONDS", default_value_t = 86_400,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub psp_key_window_seconds: u32,
    /// What a retry gets if the first response with its key was a 5xx.
    #[arg(long, env = "PSP_REPLAY_5XX", value_enum, default_value_t = Replay5xx::Fresh)]
    pub psp_replay_5xx: Replay5xx,
    /// How long a charge of `pm_card_slow` takes.
    #[arg(long, env = "PSP_SLOW_MS", default_value_t = 30_000)]
    pub psp_slow_ms: u64,
    /// How long a charge or a refund whose outcome comes later stays pending.
    #[arg(long, env = "PSP_PROCESSING_MS", default_value_t = 2_000)]
    pub psp_processing_ms: u32,
    /// How old a charge or a refund must be before lookups and ledgers show it. Replays by key and
    /// cancellations see it immediately.
    #[arg(long, env = "PSP_LOOKUP_LAG_MS", default_value_t = 0)]
    pub psp_lookup_lag_ms: u32,
    /// Whether the provider can cancel a key.
    #[arg(long, env = "PSP_KEY_CANCELLATION", value_enum, default_value_t = KeyCancellation::On)]
    pub psp_key_cancellation: KeyCancellation,
}

impl Charging {
    pub fn key_window(&self) -> TimeDelta {
        TimeDelta::seconds(i64::from(self.psp_key_window_seconds))
    }

    pub fn slow(&self) -> Duration {
        Duration::from_millis(self.psp_slow_ms)
    }

    pub fn processing(&self) -> TimeDelta {
        TimeDelta::milliseconds(i64::from(self.psp_processing_ms))
    }

    pub fn lookup_lag(&self) -> TimeDelta {
        TimeDelta::milliseconds(i64::from(self.psp_lookup_lag_ms))
    }
}

/// Most real providers cannot cancel a key, and a client must handle both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyCancellation {
    On,
    /// `POST /v1/cancellations` answers 404.
    Off,
}

/// Real providers do one or the other, and a client must handle both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Replay5xx {
    /// The same 5xx, for as long as the provider remembers the key.
    Stored,
    /// A fresh try: a 5xx is never stored.
    Fresh,
}
