//! Settings, from flags or environment, checked before a port is bound.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use lettre::message::Mailbox;

use crate::domain::Recipients;

/// The receipt service of ChargeOnce.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send receipts for what was paid until SIGTERM.
    Serve(Box<Config>),
    /// Bring the database up to date and exit.
    Migrate(Migration),
    /// Exit with 0 if the service that listens here says that it is ready.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
pub struct Config {
    /// Address of health, metrics and operator routes; port 0 picks a free one.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8084")]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub database: service_kit::database::Settings,
    #[command(flatten)]
    pub kafka: service_kit::kafka::Settings,
    #[command(flatten)]
    pub retention: service_kit::retention::Settings,
    /// Consumer group.
    #[arg(long, env = "KAFKA_GROUP", default_value = "receipt")]
    pub kafka_group: String,
    #[command(flatten)]
    pub smtp: Smtp,
    /// Who the receipts come from: an address, or `Name <address>`. Its domain is that of the
    /// Message-IDs, too.
    #[arg(
        long,
        env = "RECEIPT_FROM",
        default_value = "ChargeOnce <receipts@chargeonce.example>"
    )]
    pub receipt_from: String,
    /// Who gets them. There is no directory of customers here: `{customer_id}` stands for the
    /// customer's id if that can be the local part of an address, and for `customer` otherwise.
    #[arg(
        long,
        env = "RECEIPT_TO",
        default_value = "{customer_id}@customers.example"
    )]
    pub receipt_to: String,
    /// How long a sender owns a mail. Another takes over when this has passed, so it must be longer
    /// than both time-outs of the dialogue.
    #[arg(long, env = "LEASE_MS", default_value_t = 660_000)]
    pub lease_ms: u64,
    /// How often the sender looks for due mails without being woken.
    #[arg(long, env = "SENDER_POLL_MS", default_value_t = 500)]
    pub sender_poll_ms: u64,
    /// Delay after the first try that is to be repeated; doubles from there, with jitter.
    #[arg(long, env = "RETRY_BASE_MS", default_value_t = 1_000)]
    pub retry_base_ms: u64,
    /// Longest such delay.
    #[arg(long, env = "RETRY_MAX_MS", default_value_t = 300_000)]
    pub retry_max_ms: u64,
}

/// The mail server.
#[derive(Clone, Debug, Args)]
#[group(id = "smtp")]
pub struct Smtp {
    /// Host of the mail server.
    #[arg(long, env = "SMTP_HOST", default_value = "127.0.0.1")]
    pub smtp_host: String,
    /// Its port.
    #[arg(long, env = "SMTP_PORT", default_value_t = 8025)]
    pub smtp_port: u16,
    /// Whether and how the connection is encrypted.
    #[arg(long, env = "SMTP_TLS", value_enum, default_value = "none")]
    pub smtp_tls: TlsMode,
    /// User to log in as; without one there is no login.
    #[arg(long, env = "SMTP_USER")]
    pub smtp_user: Option<String>,
    /// Password of that user.
    #[arg(long, env = "SMTP_PASSWORD", hide_env_values = true)]
    pub smtp_password: Option<String>,
    /// Most connections to the mail server at once.
    #[arg(long, env = "SMTP_CONNECTIONS_MAX", default_value_t = 8)]
    pub smtp_connections_max: usize,
    /// Longest time from connecting to the server's leave to send the content.
    #[arg(long, env = "SMTP_TIMEOUT_MS", default_value_t = 30_000)]
    pub smtp_timeout_ms: u64,
    /// Longest wait for the answer to the content. Ten minutes is what RFC 5321 asks for: past it
    /// nobody knows whether the mail was taken, so impatience here makes doubles.
    #[arg(long, env = "SMTP_DATA_TIMEOUT_MS", default_value_t = 600_000)]
    pub smtp_data_timeout_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsMode {
    /// Plain text, for a server on the same machine.
    None,
    /// Plain at first, encrypted before anything is said; refused by us if the server cannot.
    Starttls,
    /// Encrypted from the first byte.
    Implicit,
}

#[derive(Clone, Debug, Args)]
pub struct Migration {
    /// The database to migrate.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
}

impl Config {
    /// What the types cannot say.
    pub fn check(&self) -> anyhow::Result<()> {
        let dialogue_ms = self.smtp.smtp_timeout_ms + self.smtp.smtp_data_timeout_ms;
        anyhow::ensure!(
            self.lease_ms > dialogue_ms,
            "LEASE_MS ({}) must be longer than SMTP_TIMEOUT_MS and SMTP_DATA_TIMEOUT_MS together \
             ({dialogue_ms}): a dialogue must end before its lease does",
            self.lease_ms,
        );
        anyhow::ensure!(
            self.smtp.smtp_connections_max > 0,
            "SMTP_CONNECTIONS_MAX must be at least 1"
        );
        anyhow::ensure!(
            self.smtp.smtp_user.is_some() == self.smtp.smtp_password.is_some(),
            "SMTP_USER and SMTP_PASSWORD go together"
        );
        anyhow::ensure!(
            self.smtp.smtp_user.is_none() || self.smtp.smtp_tls != TlsMode::None,
            "SMTP_PASSWORD would be sent for everybody to read: set SMTP_TLS to starttls or implicit"
        );
        Ok(())
    }

    pub fn from_mailbox(&self) -> anyhow::Result<Mailbox> {
        let from = self.receipt_from.parse();
        from.with_context(|| format!("RECEIPT_FROM ({}) is no address", self.receipt_from))
    }

    pub fn recipients(&self) -> anyhow::Result<Recipients> {
        Recipients::new(&self.receipt_to)
            .with_context(|| format!("RECEIPT_TO ({}) makes no address", self.receipt_to))
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}
