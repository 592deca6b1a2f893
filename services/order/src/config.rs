//! Settings, from flags or environment, checked before a port is bound.

use std::net::SocketAddr;

use clap::{Args, Parser, Subcommand};

/// The order service of ChargeOnce.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take requests and events until SIGTERM.
    Serve(Config),
    /// Bring the database up to date and exit.
    Migrate(Migration),
}

#[derive(Clone, Debug, Args)]
pub struct Config {
    /// Address of the API; port 0 picks a free one.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8081")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub database: service_kit::database::Settings,
    #[command(flatten)]
    pub kafka: service_kit::kafka::Settings,
    /// Consumer group.
    #[arg(long, env = "KAFKA_GROUP", default_value = "order")]
    pub kafka_group: String,
    /// How long an idempotency key is honoured.
    #[arg(long, env = "KEY_WINDOW_SECONDS", default_value_t = 86_400)]
    pub key_window_seconds: u64,
    /// Pause between two rounds of the reaper of expired keys.
    #[arg(long, env = "REAPER_INTERVAL_MS", default_value_t = 60_000)]
    pub reaper_interval_ms: u64,
    /// Most requests waiting for the store; one more is answered 503.
    #[arg(long, env = "INTAKE_QUEUE_MAX", default_value_t = 1_000)]
    pub intake_queue_max: usize,
    /// Most requests stored by one commit.
    #[arg(long, env = "INTAKE_BATCH_MAX", default_value_t = 64)]
    pub intake_batch_max: usize,
    /// Intake commits going on at once.
    #[arg(long, env = "INTAKE_WRITERS", default_value_t = 2)]
    pub intake_writers: usize,
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
