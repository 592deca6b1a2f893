//! Settings, from flags or environment, checked before a port is bound.

use std::net::SocketAddr;

use clap::{Args, Parser, Subcommand};

/// The fulfilment service of ChargeOnce.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ship what was paid until SIGTERM.
    Serve(Config),
    /// Bring the database up to date and exit.
    Migrate(Migration),
    /// Exit with 0 if the service that listens here says that it is ready.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
pub struct Config {
    /// Address of health, metrics and operator routes; port 0 picks a free one.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8083")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub database: service_kit::database::Settings,
    #[command(flatten)]
    pub kafka: service_kit::kafka::Settings,
    #[command(flatten)]
    pub retention: service_kit::retention::Settings,
    /// Consumer group.
    #[arg(long, env = "KAFKA_GROUP", default_value = "fulfilment")]
    pub kafka_group: String,
}

#[derive(Clone, Debug, Args)]
pub struct Migration {
    /// The database to migrate.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
    /// Also put the demo's stock on the shelves: SKU-1 to SKU-99.
    #[arg(long)]
    pub demo_data: bool,
}
