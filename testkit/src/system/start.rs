//! Starts a system step by step.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::launch::{self, Replica};
use super::network::Network;
use super::state_dir::StateDir;
use super::{Ports, Postgres, System, SystemOptions};
use crate::binaries::Binaries;
use crate::broker::Broker;
use crate::postgres::{Cluster, database};
use crate::progress::Progress;
use crate::supervisor::Supervisor;
use crate::{ports, smtp_sink};
use endpoints::Endpoints;
use endpoints::operator::Token;
use endpoints::topic::Topic;
use endpoints::{PerService, Service};

/// The topic's name after the prefix.
const TOPIC: &str = "order-events";
/// How long a service may take from its start until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// See [`System::start`].
pub(super) async fn start(mut options: SystemOptions) -> anyhow::Result<System> {
    let progress = Progress::new(options.quiet);
    // These checks come first, before anything is started.
    let binaries = Binaries::locate(None)?.with_service_dirs(options.bin_dirs.clone());
    for service in Service::ALL {
        binaries.path(service.name())?;
        binaries.service(service)?;
    }
    if options.ports == Ports::Fixed {
        ports::require_all_free()?;
    }
    let replicas = launch::replicas(&options)?;
    let state_dir = StateDir::open(options.state_dir.as_deref())?;

    let supervisor =
        Supervisor::with_restart_delay(options.restart, options.quiet, options.restart_delay);
    let topic = Topic {
        name: format!("{}{TOPIC}", options.prefix),
        partitions: options.partitions,
    };
    let log_dir = state_dir.path();
    let ((cluster, server), broker) = tokio::try_join!(
        progress.step("postgres", server(&options.postgres, &supervisor, log_dir)),
        progress.step(
            "kafka",
            Broker::start(
                &options.kafka,
                &supervisor,
                &binaries,
                log_dir,
                Some(&topic)
            )
        ),
    )?;
    let endpoints = describe(
        &options, &replicas, &state_dir, &server, &broker, topic.name,
    )?;

    let migrations = migrate(&endpoints, &server, &binaries, &options);
    progress.step("databases", migrations).await?;
    let network = Network::start(&mut options, &endpoints).await?;
    let services = serve(
        &options,
        &replicas,
        &endpoints,
        &supervisor,
        &binaries,
        &broker,
    );
    progress.step("services", services).await?;

    Ok(System {
        description_writer: write_description(endpoints.clone(), &supervisor),
        endpoints,
        supervisor,
        cluster,
        broker,
        binaries,
        options,
        network,
        server,
        state_dir,
    })
}

/// The Postgres server, started if it is private, and its URL.
async fn server(
    postgres: &Postgres,
    supervisor: &Supervisor,
    log_dir: &Path,
) -> anyhow::Result<(Option<Cluster>, String)> {
    match postgres {
        Postgres::Private => {
            let cluster = Cluster::start(supervisor, log_dir, None).await?;
            let url = cluster.url("postgres");
            Ok((Some(cluster), url))
        }
        Postgres::Existing(url) => {
            let reached = database::ping(url).await;
            reached.context("the existing Postgres is unreachable")?;
            Ok((None, url.clone()))
        }
    }
}

fn describe(
    options: &SystemOptions,
    replicas: &[Replica],
    state_dir: &StateDir,
    server: &str,
    broker: &Broker,
    topic: String,
) -> anyhow::Result<Endpoints> {
    let database_url =
        |service| database::url(server, &launch::database_name(&options.prefix, service));
    let smtp_port = match options.ports {
        Ports::Fixed => smtp_sink::DEMO_PORT,
        Ports::Free => ports::free()?,
    };
    Ok(Endpoints {
        urls: launch::urls(replicas, |replica| replica.port),
        operator_urls: launch::urls(replicas, |replica| replica.operator_port),
        operator_token: Token::demo(),
        database_urls: PerService {
            order: database_url(Service::Order)?,
            payment: database_url(Service::Payment)?,
            fulfilment: database_url(Service::Fulfilment)?,
            receipt: database_url(Service::Receipt)?,
            psp: database_url(Service::Psp)?,
        },
        brokers: broker.brokers().to_owned(),
        topic,
        smtp: format!("127.0.0.1:{smtp_port}"),
        mails_dir: state_dir.mails(),
        prefix: options.prefix.clone(),
        state_dir: state_dir.path().to_owned(),
        pids: Default::default(),
        lab_pid: std::process::id(),
    })
}

/// Creates all databases and brings them up to date, in parallel: none depends on another.
pub(super) async fn migrate(
    endpoints: &Endpoints,
    server: &str,
    binaries: &Binaries,
    options: &SystemOptions,
) -> anyhow::Result<()> {
    let mut migrations = JoinSet::new();
    for service in Service::ALL {
        let (endpoints, server) = (endpoints.clone(), server.to_owned());
        let (binaries, options) = (binaries.clone(), options.clone());
        migrations.spawn(async move {
            launch::create_database(service, &server, &endpoints, &binaries, &options).await
        });
    }
    migrations.join_all().await.into_iter().collect()
}

/// Starts the mail sink and every process of every service, then waits for them all.
async fn serve(
    options: &SystemOptions,
    replicas: &[Replica],
    endpoints: &Endpoints,
    supervisor: &Supervisor,
    binaries: &Binaries,
    broker: &Broker,
) -> anyhow::Result<()> {
    if options.ports == Ports::Fixed {
        // Checked again, because another lab may have started in the last seconds. Its services would
        // respond in place of these.
        ports::require_all_free()?;
    }
    let (log_dir, smtp) = (&endpoints.state_dir, &endpoints.smtp);
    smtp_sink::start(supervisor, binaries, log_dir, smtp, &endpoints.mails_dir).await?;
    for replica in replicas {
        let extra = options.env.get(replica.service);
        let spec = launch::spec(replica, endpoints, binaries, broker.is_embedded(), extra)?;
        let first_env = match replica.index {
            0 => options.first_env.get(replica.service).as_slice(),
            _ => &[],
        };
        supervisor.start(&replica.name(), spec, first_env)?;
    }
    for replica in replicas {
        let name = replica.name();
        let url = &endpoints.urls.get(replica.service)[replica.index];
        let log = launch::log_path(&endpoints.state_dir, &name);
        launch::wait_ready(supervisor, &name, url, &log, READY_TIMEOUT).await?;
    }
    Ok(())
}

/// Writes `system.json` now and whenever a process starts or ends.
fn write_description(endpoints: Endpoints, supervisor: &Supervisor) -> AbortOnDropHandle<()> {
    let mut changes = supervisor.changes();
    let pids = supervisor.pids_handle();
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            changes.mark_unchanged();
            let now = Endpoints {
                pids: pids(),
                ..endpoints.clone()
            };
            if let Err(error) = now.save() {
                eprintln!("! {error:#}");
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }))
}
