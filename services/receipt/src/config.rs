//! Settings from flags or the environment, checked before the service binds its port.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use clap::{Args, Parser, Subcommand, ValueEnum};
use lettre::message::Mailbox;

use crate::domain::{AgeLimit, Recipients};
use crate::recorder;

/// The receipt service of ChargeOnce: sends one e-mail for each outcome of an order.
#[derive(Debug, Parser)]
pub struct Program {
    #[command(flatten)]
    pub telemetry: telemetry::Settings,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Consume events and send mails until SIGTERM.
    Serve(Box<Config>),
    /// Create or update the tables, then exit.
    Migrate(Migration),
    /// Ask a running service whether it is ready; exit with 0 if it is.
    Healthy(service_kit::Probe),
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Receipts")]
#[command(mut_arg("listen", |arg| arg.default_value("127.0.0.1:8084")))]
#[command(mut_arg("operator_listen", |arg| arg.default_value("127.0.0.1:9084")))]
#[command(mut_arg("kafka_group", |arg| arg.default_value("receipt")))]
pub struct Config {
    /// Sender of the receipts: an address, or `Name <address>`. Its domain is also used in the
    /// Message-IDs.
    #[arg(
        long,
        env = "RECEIPT_FROM",
        default_value = "ChargeOnce <receipts@chargeonce.example>"
    )]
    pub receipt_from: String,
    /// Recipient of the receipts. `{customer_id}` stands for the customer's id if that is valid before
    /// the @ of an address, and for `customer` otherwise.
    #[arg(
        long,
        env = "RECEIPT_TO",
        default_value = "{customer_id}@customers.example"
    )]
    pub receipt_to: String,
    /// How long a sender owns a mail. After that another sender takes over, so the lease must be
    /// longer than SMTP_TIMEOUT_MS and SMTP_DATA_TIMEOUT_MS together.
    #[arg(long, env = "LEASE_MS", default_value_t = 660_000)]
    pub lease_ms: u64,
    /// How often the sender looks for due mails if nothing wakes it.
    #[arg(long, env = "SENDER_POLL_MS", default_value_t = 500)]
    pub sender_poll_ms: u64,
    /// Delay after the first failed try. It doubles with each further try, with jitter.
    #[arg(long, env = "RETRY_BASE_MS", default_value_t = 1_000)]
    pub retry_base_ms: u64,
    /// Longest delay between two tries.
    #[arg(long, env = "RETRY_MAX_MS", default_value_t = 300_000)]
    pub retry_max_ms: u64,
    /// Age of an event above which its mail is held until an operator releases it.
    #[arg(long, env = "MAIL_EVENT_AGE_MAX_SECONDS", default_value_t = 604_800)]
    pub mail_event_age_max_seconds: u64,
    /// Hold the mails of all events before this time, such as 2026-01-31T12:00:00Z, until an operator
    /// releases or settles them. For a database that was restored from a backup; see docs/restore.md.
    #[arg(long, env = "MAIL_HOLD_EVENTS_BEFORE")]
    pub mail_hold_events_before: Option<DateTime<Utc>>,
    /// Longest waits for the store: for a lease, and for a record. No setting; tests shorten them.
    #[arg(skip = leases::STORE_WAIT_MAX)]
    pub lease_wait_max: Duration,
    #[arg(skip = recorder::STORE_WAIT_MAX)]
    pub record_wait_max: Duration,
    #[command(flatten, next_help_heading = "Mail server")]
    pub smtp: Smtp,
    #[command(flatten)]
    pub application: application::Settings,
}

/// How to reach the mail server.
#[derive(Clone, Debug, Args)]
#[group(id = "smtp")]
pub struct Smtp {
    /// Host of the mail server.
    #[arg(long, env = "SMTP_HOST", default_value = "127.0.0.1")]
    pub smtp_host: String,
    /// Port of the mail server.
    #[arg(long, env = "SMTP_PORT", default_value_t = 8025)]
    pub smtp_port: u16,
    /// Whether and how the connection is encrypted.
    #[arg(long, env = "SMTP_TLS", value_enum, default_value = "none")]
    pub smtp_tls: TlsMode,
    /// User to log in as. Without it the service does not log in.
    #[arg(long, env = "SMTP_USER")]
    pub smtp_user: Option<String>,
    /// Password of that user.
    #[arg(long, env = "SMTP_PASSWORD", hide_env_values = true)]
    pub smtp_password: Option<String>,
    /// Maximum number of concurrent connections to the mail server.
    #[arg(long, env = "SMTP_CONNECTIONS_MAX", default_value_t = 32)]
    pub smtp_connections_max: usize,
    /// Longest time from connecting until the server is ready for the content (its reply to DATA).
    #[arg(long, env = "SMTP_TIMEOUT_MS", default_value_t = 30_000)]
    pub smtp_timeout_ms: u64,
    /// Longest wait for the response to the content. RFC 5321 asks for ten minutes. After it delivery
    /// is in doubt, so a shorter limit causes duplicate mails.
    #[arg(long, env = "SMTP_DATA_TIMEOUT_MS", default_value_t = 600_000)]
    pub smtp_data_timeout_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsMode {
    /// Not encrypted; for a server on the same machine.
    None,
    /// Upgrade with STARTTLS before sending anything; fail if the server does not support it.
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
    /// Checks combinations of settings that the types cannot express.
    pub fn check(&self) -> anyhow::Result<()> {
        let dialogue_ms = self.smtp.smtp_timeout_ms + self.smtp.smtp_data_timeout_ms;
        anyhow::ensure!(
            self.lease_ms > dialogue_ms,
            "LEASE_MS ({}) must be longer than SMTP_TIMEOUT_MS and SMTP_DATA_TIMEOUT_MS together \
             ({dialogue_ms}): a dialogue must end before its lease expires",
            self.lease_ms,
        );
        anyhow::ensure!(
            self.smtp.smtp_connections_max > 0,
            "SMTP_CONNECTIONS_MAX must be at least 1"
        );
        anyhow::ensure!(
            self.smtp.smtp_user.is_some() == self.smtp.smtp_password.is_some(),
            "SMTP_USER and SMTP_PASSWORD must be set together"
        );
        anyhow::ensure!(
            self.smtp.smtp_user.is_none() || self.smtp.smtp_tls != TlsMode::None,
            "SMTP_PASSWORD would be sent unencrypted: set SMTP_TLS to starttls or implicit"
        );
        Ok(())
    }

    pub fn from_mailbox(&self) -> anyhow::Result<Mailbox> {
        let from = self.receipt_from.parse();
        from.with_context(|| {
            format!(
                "RECEIPT_FROM ({}) is not a valid address",
                self.receipt_from
            )
        })
    }

    pub fn recipients(&self) -> anyhow::Result<Recipients> {
        Recipients::new(&self.receipt_to).with_context(|| {
            format!(
                "RECEIPT_TO ({}) does not produce a valid address",
                self.receipt_to
            )
        })
    }

    pub fn age_limit(&self) -> AgeLimit {
        AgeLimit {
            age_max: Duration::from_secs(self.mail_event_age_max_seconds),
            hold_before: self.mail_hold_events_before,
        }
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}
