//! Settings, from flags or environment, checked before a port is bound.

use std::net::SocketAddr;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, value_parser};

/// Longest window of a key: a year. The table holds every key of a window.
const KEY_WINDOW_SECONDS_MAX: u64 = 366 * 24 * 60 * 60;

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
    /// Exit with 0 if the service that listens here says that it is ready.
    Healthy(service_kit::Probe),
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
    #[command(flatten)]
    pub retention: service_kit::retention::Settings,
    /// Consumer group.
    #[arg(long, env = "KAFKA_GROUP", default_value = "order")]
    pub kafka_group: String,
    /// How long an idempotency key is honoured.
    #[arg(long, env = "KEY_WINDOW_SECONDS", default_value_t = 86_400)]
    #[arg(value_parser = value_parser!(u64).range(1..=KEY_WINDOW_SECONDS_MAX))]
    pub key_window_seconds: u64,
    /// Most requests waiting for the store; one more is answered 503.
    #[arg(long, env = "INTAKE_QUEUE_MAX", default_value_t = 1_000, value_parser = at_least_one())]
    pub intake_queue_max: usize,
    /// Most requests stored by one commit.
    #[arg(long, env = "INTAKE_BATCH_MAX", default_value_t = 64, value_parser = at_least_one())]
    pub intake_batch_max: usize,
    /// Intake commits going on at once.
    #[arg(long, env = "INTAKE_WRITERS", default_value_t = 2, value_parser = at_least_one())]
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

/// For limits that would let nothing through at zero.
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
    fn a_limit_that_would_let_nothing_through_ends_the_program() {
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
