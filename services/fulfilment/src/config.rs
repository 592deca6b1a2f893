//! Settings from flags or the environment, checked before the service binds its port.

use clap::{Args, Parser, Subcommand};

/// The fulfilment service of ChargeOnce: ships paid orders from stock, or rejects them.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Consume events and ship paid orders until SIGTERM.
    Serve(Box<Config>),
    /// Create or update the tables, then exit.
    Migrate(Migration),
    /// Read this service's own decisions back from the topic, after its database was restored from a
    /// backup, then exit. Run it before the service starts; see docs/restore.md. It exits with 1 if
    /// topic and database contradict each other.
    Recall(Recall),
    /// Ask a running service whether it is ready; exit with 0 if it is.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
#[command(mut_arg("listen", |arg| arg.default_value("127.0.0.1:8083")))]
#[command(mut_arg("operator_listen", |arg| arg.default_value("127.0.0.1:9083")))]
#[command(mut_arg("kafka_group", |arg| arg.default_value("fulfilment")))]
pub struct Config {
    #[command(flatten)]
    pub application: application::Settings,
}

#[derive(Clone, Debug, Args)]
pub struct Recall {
    /// The restored database.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
    /// Only the brokers and the topic are used.
    #[command(flatten)]
    pub kafka: service_kit::kafka::Settings,
}

#[derive(Clone, Debug, Args)]
pub struct Migration {
    /// The database to migrate.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
    /// Also add the demo's stock: SKU-1 to SKU-99.
    #[arg(long)]
    pub demo_data: bool,
}
