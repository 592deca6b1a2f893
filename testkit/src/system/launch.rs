//! Turns options into processes: databases, migrations, and each service's environment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::{Ports, Postgres, SystemOptions};
use crate::binaries::Binaries;
use crate::postgres::{database, template};
use crate::process::Spec;
use crate::supervisor::Supervisor;
use crate::{ports, readiness};
use endpoints::{Endpoints, PerService, Service, operator};

/// Database connections per process by default. Five services with a few replicas stay below the
/// limit of Postgres.
const DATABASE_CONNECTIONS_MAX: u32 = 16;
/// The embedded broker holds a fetch without messages for this time.
const EMBEDDED_FETCH_WAIT_MS: u32 = 10;
/// The local mail sink replies immediately, so the lease of a dead sender can be much shorter than
/// with a remote mail server.
const RECEIPT_TIMES: [(&str, &str); 3] = [
    ("SMTP_TIMEOUT_MS", "2000"),
    ("SMTP_DATA_TIMEOUT_MS", "2000"),
    ("LEASE_MS", "6000"),
];
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// One process of a service.
pub(super) struct Replica {
    pub(super) service: Service,
    /// From 0.
    pub(super) index: usize,
    pub(super) port: u16,
    pub(super) operator_port: u16,
}

impl Replica {
    /// The name of the process: the service, with a number from the second replica on.
    pub(super) fn name(&self) -> String {
        process_name(self.service, self.index)
    }
}

pub(super) fn process_name(service: Service, index: usize) -> String {
    match index {
        0 => service.name().to_owned(),
        _ => format!("{service}-{}", index + 1),
    }
}

/// Every process to start, in order, with its ports.
pub(super) fn replicas(options: &SystemOptions) -> anyhow::Result<Vec<Replica>> {
    let mut replicas = Vec::new();
    for service in Service::ALL {
        for index in 0..*options.replicas.get(service) as usize {
            let (port, operator_port) = match (options.ports, index) {
                (Ports::Fixed, 0) => (service.demo_port(), service.operator_demo_port()),
                _ => (ports::free()?, ports::free()?),
            };
            replicas.push(Replica {
                service,
                index,
                port,
                operator_port,
            });
        }
    }
    Ok(replicas)
}

/// The base URLs of the replicas, on the port that `port` picks.
pub(super) fn urls(replicas: &[Replica], port: fn(&Replica) -> u16) -> PerService<Vec<String>> {
    let of = |service| {
        replicas
            .iter()
            .filter(move |replica| replica.service == service)
    };
    PerService::from_fn(|service| {
        of(service)
            .map(|replica| format!("http://127.0.0.1:{}", port(replica)))
            .collect()
    })
}

/// Creates a service's database if it is missing, and migrates it.
pub(super) async fn create_database(
    service: Service,
    server: &str,
    endpoints: &Endpoints,
    binaries: &Binaries,
    options: &SystemOptions,
) -> anyhow::Result<()> {
    let name = database_name(&endpoints.prefix, service);
    let log = migration_log(&endpoints.state_dir, service);
    let program = match options.is_earlier_release {
        true => binaries.service(service)?,
        false => binaries.path(service.name())?,
    };
    let migrate = |url| migrate(service, program, url, log, options.demo_data);
    let has_template = options.disposable_server && !options.is_earlier_release;
    if has_template && matches!(options.postgres, Postgres::Existing(_)) {
        let label = format!("{service}-{}", options.demo_data);
        return template::copy(server, &label, &name, migrate).await;
    }
    database::create_if_missing(server, &name).await?;
    migrate(endpoints.database_url(service).to_owned()).await
}

/// Brings a service's database up to date with the command of this program.
pub(super) async fn migrate(
    service: Service,
    program: PathBuf,
    url: String,
    log: PathBuf,
    demo_data: bool,
) -> anyhow::Result<()> {
    let mut spec = Spec::new(program, log).args(["migrate"]);
    if demo_data && service.has_demo_data() {
        spec = spec.args(["--demo-data"]);
    }
    spec.env.push(("DATABASE_URL".to_owned(), url));
    readiness::run_once(&format!("migrating {service}"), &spec).await
}

/// The name of a service's database.
pub(super) fn database_name(prefix: &str, service: Service) -> String {
    format!("{prefix}{service}")
}

/// How to run one process of a service.
pub(super) fn spec(
    replica: &Replica,
    endpoints: &Endpoints,
    binaries: &Binaries,
    embedded_broker: bool,
    extra: &[(String, String)],
) -> anyhow::Result<Spec> {
    let service = replica.service;
    let log = log_path(&endpoints.state_dir, &replica.name());
    let mut spec = Spec::new(binaries.service(service)?, log).args(["serve"]);
    let mut set = |name: &str, value: String| spec.env.push((name.to_owned(), value));
    set("LISTEN", format!("127.0.0.1:{}", replica.port));
    set(
        "OPERATOR_LISTEN",
        format!("127.0.0.1:{}", replica.operator_port),
    );
    set(
        "OPERATOR_TOKENS",
        endpoints.operator_token.setting(operator::DEMO_NAME),
    );
    set("DATABASE_URL", endpoints.database_url(service).to_owned());
    set(
        "DATABASE_CONNECTIONS_MAX",
        DATABASE_CONNECTIONS_MAX.to_string(),
    );
    set("LOG_FORMAT", "json".to_owned());
    if service.uses_kafka() {
        set("KAFKA_BROKERS", endpoints.brokers.clone());
        set("KAFKA_TOPIC", endpoints.topic.clone());
        set("KAFKA_GROUP", endpoints.group(service));
    }
    // The embedded broker knows no names: it would wait for the end of the session even after a clean stop.
    if service.uses_kafka() && !embedded_broker {
        set("KAFKA_GROUP_INSTANCE_ID", replica.name());
    }
    if service.uses_kafka() && embedded_broker {
        set(
            "KAFKA_FETCH_WAIT_MAX_MS",
            EMBEDDED_FETCH_WAIT_MS.to_string(),
        );
    }
    if service == Service::Order {
        let urls = [Service::Payment, Service::Fulfilment].map(|it| endpoints.urls.get(it));
        let urls: Vec<&str> = urls.into_iter().flatten().map(String::as_str).collect();
        set("PRESSURE_URLS", urls.join(","));
    }
    if service == Service::Payment {
        set("PSP_URL", endpoints.url(Service::Psp).to_owned());
    }
    if service == Service::Receipt {
        let (host, port) = endpoints.smtp.rsplit_once(':').unwrap_or_default();
        set("SMTP_HOST", host.to_owned());
        set("SMTP_PORT", port.to_owned());
        for (name, value) in RECEIPT_TIMES {
            set(name, value.to_owned());
        }
    }
    spec.env.extend_from_slice(extra);
    Ok(spec)
}

/// The log of a process.
pub(super) fn log_path(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join(format!("{name}.log"))
}

/// The log of a service's migrations.
pub(super) fn migration_log(state_dir: &Path, service: Service) -> PathBuf {
    state_dir.join(format!("{service}-migrate.log"))
}

/// Waits until a service is ready.
pub(super) async fn wait_ready(
    supervisor: &Supervisor,
    name: &str,
    url: &str,
    log: &Path,
    timeout: Duration,
) -> anyhow::Result<()> {
    let client = reqwest::Client::builder()
        .timeout(PROBE_TIMEOUT)
        .no_proxy()
        .build()
        .context("cannot create an HTTP client")?;
    readiness::wait(supervisor, name, log, timeout, || async {
        client
            .get(format!("{url}/readyz"))
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    })
    .await
}
