//! Assembles the receipt service.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use application::{Application, Builder};
use leases::{Starter, Worker};
use service_kit::{Backoff, migration};
use sqlx::Connection as _;
use tokio::sync::{Notify, mpsc};

use crate::config::{Config, Migration};
use crate::consumer::LogMails;
use crate::gauge::gauge;
use crate::recorder::Recorder;
use crate::routes::Services;
use crate::sender::Sender;
use crate::{routes, smtp, timeline};

/// Mails that are leased for each connection. A connection is idle while its mail is recorded and the
/// next ones are leased, unless further mails already wait for it. A busy consumer logs hundreds of mails in one
/// commit: with enough slots they are logged already leased, and need no statement of their own.
const MAILS_PER_CONNECTION_MAX: usize = 16;

pub async fn build(config: Config) -> anyhow::Result<Application> {
    config.check()?;
    let (from, recipients) = (config.from_mailbox()?, config.recipients()?);
    let (lease, age_limit) = (config.lease(), config.age_limit());
    let group = config.application.kafka_group.clone();
    let builder = Builder::new("receipt", config.application)?;
    let pool = builder.pool().clone();
    let due = Arc::new(Notify::new());
    let in_flight_max = config.smtp.smtp_connections_max * MAILS_PER_CONNECTION_MAX;
    let (results, tried) = mpsc::channel(in_flight_max);
    let client = smtp::Client::new(&config.smtp, &from)?;
    let sender = Sender::new(pool.clone(), client, from, age_limit);
    let settings = leases::Settings {
        lease,
        poll: Duration::from_millis(config.sender_poll_ms),
        in_flight_max,
        batch_max: in_flight_max,
        store_wait_max: config.lease_wait_max,
    };
    let sender = Worker::new(sender, settings, due.clone(), results);
    let recorder = Recorder {
        pool: pool.clone(),
        backoff: Backoff {
            base: Duration::from_millis(config.retry_base_ms),
            max: Duration::from_millis(config.retry_max_ms),
        },
        store_wait_max: config.record_wait_max,
    };
    let builder = builder
        .operator_routes(routes::operator_table(Services {
            pool: pool.clone(),
            due: due.clone(),
        }))
        .operator_routes(operators::timeline(
            pool.clone(),
            timeline::Reader { group },
        ))
        .gauge("mails that wait for an operator", gauge(&pool))
        .consumer(LogMails::new(
            recipients,
            age_limit,
            due,
            Starter::of(&sender),
        ))?
        .worker("sender", |shutdown| sender.run(shutdown))
        // The recorder ends after the sender, which owns the other end of the channel.
        .worker("recorder", |_| recorder.run(tried));
    builder.build().await
}

pub async fn migrate(migration: Migration) -> anyhow::Result<()> {
    let folders = vec![
        sqlx::migrate!("../../migrations/inbox"),
        sqlx::migrate!("../../migrations/operators"),
        sqlx::migrate!("../../migrations/receipt"),
    ];
    let connection = migration::run(&migration.database_url, folders).await?;
    connection.close().await.context("closing the connection")
}
