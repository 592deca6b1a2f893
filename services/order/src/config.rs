//! Settings from flags or the environment, checked before the service binds its port.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};

/// The order service of ChargeOnce: accepts orders and tracks their payment and shipment.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API and consume events until SIGTERM.
    Serve(Box<Config>),
    /// Create or update the tables, then exit.
    Migrate(Migration),
    /// Ask a running service whether it is ready; exit with 0 if it is.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Orders")]
#[command(mut_arg("listen", |arg| arg.default_value("127.0.0.1:8081")))]
#[command(mut_arg("operator_listen", |arg| arg.default_value("127.0.0.1:9081")))]
#[command(mut_arg("kafka_group", |arg| arg.default_value("order")))]
pub struct Config {
    #[command(flatten)]
    pub idempotency: idempotency::Settings,
    /// Maximum number of requests that wait to be stored; further requests get 503. Principals share
    /// these places: one alone gets half.
    #[arg(long, env = "INTAKE_QUEUE_MAX", default_value_t = 1_000, value_parser = at_least_one())]
    pub intake_queue_max: usize,
    /// Maximum number of requests stored in one commit.
    #[arg(long, env = "INTAKE_BATCH_MAX", default_value_t = 64, value_parser = at_least_one())]
    pub intake_batch_max: usize,
    /// Number of batches that are committed at the same time.
    #[arg(long, env = "INTAKE_WRITERS", default_value_t = 2, value_parser = at_least_one())]
    pub intake_writers: usize,
    /// How many times the service itself opens the next payment attempt of an order, after the provider
    /// repeated a stored error for the last one. After that the order is `failed`.
    #[arg(long, env = "PAYMENT_REOPENS_MAX", default_value_t = 3)]
    pub payment_reopens_max: u16,
    /// How long an order may wait on its way before new orders get 503; 0 for no limit. From a hundredth of it on,
    /// responses to new orders are delayed; the delay grows to two seconds at a tenth of it.
    #[arg(long, env = "ORDER_WAIT_MAX_SECONDS", default_value_t = 30)]
    pub order_wait_max_seconds: u64,
    /// Base URLs of the services that orders pass, separated by commas: they report how long orders wait there.
    #[arg(long, env = "PRESSURE_URLS", value_delimiter = ',')]
    pub pressure_urls: Vec<reqwest::Url>,
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

/// Rejects zero for limits that would block all work at zero.
fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(flag: &str, value: &str) -> Result<Program, clap::Error> {
        let database = ["--database-url", "postgres://localhost/order"];
        let program = ["order", "serve", database[0], database[1], flag, value];
        Program::try_parse_from(program)
    }

    #[test]
    fn limit_of_zero_is_rejected() {
        for flag in [
            "--intake-queue-max",
            "--intake-batch-max",
            "--intake-writers",
            "--key-window-seconds",
        ] {
            serve(flag, "1").unwrap();
            serve(flag, "0").unwrap_err();
            serve(flag, "-1").unwrap_err();
        }
        serve("--key-window-seconds", "18446744073709551615").unwrap_err();
    }
}
