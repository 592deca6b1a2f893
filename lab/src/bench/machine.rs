//! The machine and the programs that were measured.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use testkit::broker::{APACHE_VERSION, Kafka};

use super::rig::{PAYMENT_TIMES, Rig};

/// Settings of Postgres that decide what a commit costs.
const POSTGRES_SETTINGS: [&str; 7] = [
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "wal_level",
    "shared_buffers",
    "max_wal_size",
];

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    pub(crate) postgres: String,
    pub(crate) postgres_settings: BTreeMap<String, String>,
    pub(crate) kafka: String,
    pub(crate) partitions: i32,
    /// `release` or `debug`: figures of a debug build mean little.
    pub(crate) build: String,
    /// Settings of the services that differ from their defaults.
    pub(crate) settings: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) async fn describe(rig: &Rig, kafka: &Kafka) -> anyhow::Result<Self> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory_kib = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|value| value.split_whitespace().next()?.parse::<f64>().ok())
            .unwrap_or_default();
        let settings =
            PAYMENT_TIMES.map(|(name, value)| (format!("payment {name}"), value.to_owned()));
        Ok(Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (memory_kib / 1024.0 / 102.4).round() / 10.0,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            postgres: setting(&rig.orders, "server_version").await?,
            postgres_settings: postgres_settings(&rig.orders).await?,
            kafka: match kafka {
                Kafka::Apache => format!("Apache Kafka {APACHE_VERSION}, one node"),
                Kafka::ApacheCluster => {
                    format!("Apache Kafka {APACHE_VERSION}, three nodes, three copies")
                }
                Kafka::Embedded => "librdkafka's mock cluster, in memory".to_owned(),
                Kafka::Existing(_) => "an existing cluster".to_owned(),
            },
            partitions: endpoints::topic::PARTITIONS_DEFAULT,
            build: if cfg!(debug_assertions) {
                "debug".to_owned()
            } else {
                "release".to_owned()
            },
            settings: settings.into(),
        })
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} cores ({}), {} GiB, Linux {}, Postgres {} (fsync {}), {}, {} build",
            self.cores,
            self.cpu,
            self.memory_gib,
            self.kernel,
            self.postgres,
            self.postgres_settings
                .get("fsync")
                .map_or("unknown", String::as_str),
            self.kafka,
            self.build
        )
    }
}

async fn postgres_settings(pool: &PgPool) -> anyhow::Result<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    for name in POSTGRES_SETTINGS {
        settings.insert(name.to_owned(), setting(pool, name).await?);
    }
    Ok(settings)
}

async fn setting(pool: &PgPool, name: &str) -> anyhow::Result<String> {
    sqlx::query_scalar("select current_setting($1)")
        .bind(name)
        .fetch_one(pool)
        .await
        .with_context(|| format!("reading {name} of Postgres"))
}

/// The value of `name : value`, as the files in /proc have it.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_of_proc_are_read() {
        let text = "processor\t: 0\nmodel name\t: Some CPU: fast\nMemTotal:  1024 kB\n";
        assert_eq!(field(text, "model name").unwrap(), "Some CPU: fast");
        assert_eq!(field(text, "MemTotal").unwrap(), "1024 kB");
        assert_eq!(field(text, "model"), None);
    }
}
