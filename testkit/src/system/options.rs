//! Options of a system.

use std::path::PathBuf;
use std::time::Duration;

use endpoints::topic::PARTITIONS_DEFAULT;

use crate::broker::Kafka;
use crate::supervisor::RESTART_DELAY_MIN;
use endpoints::PerService;

/// Environment variables, as name and value.
pub type Env = Vec<(String, String)>;

/// Where the databases live.
#[derive(Debug, Clone)]
pub enum Postgres {
    /// A private cluster, started for this system and removed with it.
    Private,
    /// A running server, by a URL with a role that may create databases.
    Existing(String),
}

/// Where the services listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// The fixed ports of the demo. The start fails if one is in use.
    Fixed,
    /// Any free ports, so that systems can run side by side.
    Free,
}

/// How to start a [`System`](super::System).
#[derive(Debug, Clone)]
pub struct SystemOptions {
    /// Where the databases live.
    pub postgres: Postgres,
    /// Which broker carries the events.
    pub kafka: Kafka,
    /// Where the services listen.
    pub ports: Ports,
    /// Prefix of the names of databases, topic and consumer groups; empty for the demo. On an
    /// existing Postgres or Kafka, databases and topic with a prefix are dropped on stop.
    pub prefix: String,
    /// Partitions of the topic.
    pub partitions: i32,
    /// The directory that a service runs from. `None`: that of the running program.
    pub bin_dirs: PerService<Option<PathBuf>>,
    /// Whether the services in `bin_dirs` are those of an earlier release. Each then creates its own tables, and
    /// [`System::migrate`](super::System::migrate) and [`System::upgrade`](super::System::upgrade) bring the system to
    /// this release.
    pub is_earlier_release: bool,
    /// Whether a process that dies is restarted.
    pub restart: bool,
    /// The wait before a process that died is restarted.
    pub restart_delay: Duration,
    /// Whether the databases get demo principals and stock.
    pub demo_data: bool,
    /// Extra environment of every process of a service. It overrides the kit's own settings.
    pub env: PerService<Env>,
    /// Extra environment of the first replica's first start only, for crash points.
    pub first_env: PerService<Env>,
    /// Processes per service. The second process of payment is `payment-2`, on a free port.
    pub replicas: PerService<u32>,
    /// Whether the existing Postgres is removed after the tests. If so, databases are copied from
    /// templates that are migrated once per process, and stay on the server when the system stops. To
    /// drop one, Postgres syncs the files of all databases to disk, while every other drop waits.
    pub disposable_server: bool,
    /// Whether connections between parts go through proxies, so that [`System::cut`](super::System::cut) can
    /// cut them. The proxies cost some throughput.
    pub network_cuts: bool,
    /// Print no progress and no restarts.
    pub quiet: bool,
    /// Directory for logs and `system.json`. `None`: a temporary one, removed by a clean stop.
    pub state_dir: Option<PathBuf>,
}

impl Default for SystemOptions {
    fn default() -> Self {
        SystemOptions {
            postgres: Postgres::Private,
            kafka: Kafka::Embedded,
            ports: Ports::Free,
            prefix: String::new(),
            partitions: PARTITIONS_DEFAULT,
            bin_dirs: PerService::default(),
            is_earlier_release: false,
            restart: true,
            restart_delay: RESTART_DELAY_MIN,
            demo_data: true,
            env: PerService::default(),
            first_env: PerService::default(),
            replicas: PerService::from_fn(|_| 1),
            disposable_server: false,
            network_cuts: false,
            quiet: false,
            state_dir: None,
        }
    }
}

impl SystemOptions {
    /// Options for one test: quiet, free ports, a unique prefix, on the Postgres and Kafka that
    /// `TEST_DATABASE_URL` and `KAFKA_BROKERS` name, or private ones.
    pub fn for_test() -> Self {
        let existing = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let id = uuid::Uuid::new_v4().simple().to_string();
        SystemOptions {
            postgres: existing("TEST_DATABASE_URL").map_or(Postgres::Private, Postgres::Existing),
            kafka: existing("KAFKA_BROKERS").map_or(Kafka::Embedded, Kafka::Existing),
            prefix: format!("t{}-", &id[..12]),
            disposable_server: true,
            quiet: true,
            ..SystemOptions::default()
        }
    }
}
