//! Settings, from flags or environment, checked before a port is bound.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::TimeDelta;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// The mock payment provider.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer requests until SIGTERM.
    Serve(Config),
    /// Bring the database up to date and exit.
    Migrate(Migration),
    /// Exit with 0 if the service that listens here says that it is ready.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
pub struct Config {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub charging: Charging,
    #[command(flatten)]
    pub database: service_kit::database::Settings,
}

#[derive(Clone, Debug, Args)]
pub struct Migration {
    /// The database to migrate.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
}

/// How this provider treats keys and slow cards.
#[derive(Clone, Debug, Args)]
pub struct Charging {
    /// How long a key is remembered; older ones charge again.
    #[arg(long, env = "PSP_KEY_WINDOW_SECONDS", default_value_t = 86_400,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub psp_key_window_seconds: u32,
    /// What a retry of a key that was answered with a 5xx gets: that 5xx again, or a fresh try.
    #[arg(long, env = "PSP_REPLAY_5XX", value_enum, default_value_t = Replay5xx::Fresh)]
    pub psp_replay_5xx: Replay5xx,
    /// How long `pm_card_slow` takes to capture.
    #[arg(long, env = "PSP_SLOW_MS", default_value_t = 30_000)]
    pub psp_slow_ms: u64,
}

impl Charging {
    pub fn key_window(&self) -> TimeDelta {
        TimeDelta::seconds(i64::from(self.psp_key_window_seconds))
    }

    pub fn slow(&self) -> Duration {
        Duration::from_millis(self.psp_slow_ms)
    }
}

/// Both styles are found in the field, and a caller must survive either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Replay5xx {
    /// A 5xx is the key's answer for as long as the key is remembered.
    Stored,
    /// A 5xx is never kept; the next request with the key runs.
    Fresh,
}
