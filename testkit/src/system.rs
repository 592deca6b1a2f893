//! The whole system as real processes: databases, broker, mail sink and services.

mod launch;
mod network;
mod options;
mod reset;
mod start;
mod state_dir;
mod upgrade;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use tokio_util::task::AbortOnDropHandle;

use crate::binaries::Binaries;
use crate::broker::Broker;
use crate::postgres::{self, Cluster, database};
use crate::supervisor::{ProcessStatus, Supervisor};
use endpoints::operator::OperatorClient;
use endpoints::provider::Faults;
use endpoints::topic::Topic;
use endpoints::{Endpoints, Service};
use network::Network;
use state_dir::StateDir;
use tokio::sync::watch;

pub use network::PAYMENT_PSP;
pub use options::{Env, Ports, Postgres, SystemOptions};

/// Longest wait for an operator's request. A reconciliation or a republication may take a while.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(60);

/// A running system. End it with [`System::stop`]. Dropping it kills the processes and, if the state
/// directory is temporary, keeps it so that the logs can be read.
#[derive(Debug)]
pub struct System {
    endpoints: Endpoints,
    /// Updates `system.json` when processes start and end.
    description_writer: AbortOnDropHandle<()>,
    supervisor: Supervisor,
    cluster: Option<Cluster>,
    broker: Broker,
    binaries: Binaries,
    options: SystemOptions,
    /// Proxies on connections that can be cut.
    network: Network,
    /// The server that the databases are on.
    server: String,
    state_dir: StateDir,
}

impl System {
    /// Starts everything and returns once every service is ready.
    pub async fn start(options: SystemOptions) -> anyhow::Result<System> {
        start::start(options).await
    }

    /// Current addresses and process ids.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            pids: self.supervisor.pids(),
            ..self.endpoints.clone()
        }
    }

    /// The base URL of a service's first replica, without a trailing slash.
    pub fn url(&self, service: Service) -> &str {
        self.endpoints.url(service)
    }

    /// The base URL of the operator listener of a service's first replica.
    pub fn operator_url(&self, service: Service) -> &str {
        self.endpoints.operator_url(service)
    }

    /// A client of the operator listeners. `reason` goes to the audit log.
    pub fn operator(&self, reason: &str) -> anyhow::Result<OperatorClient> {
        self.endpoints.operator(reason, OPERATOR_TIMEOUT)
    }

    /// The faults of the mock provider. `reason` goes to its audit log.
    pub fn faults(&self, reason: &str) -> anyhow::Result<Faults> {
        Faults::of(&self.endpoints, reason)
    }

    /// The URL of a service's database.
    pub fn database_url(&self, service: Service) -> &str {
        self.endpoints.database_url(service)
    }

    /// Kafka's bootstrap servers.
    pub fn brokers(&self) -> &str {
        &self.endpoints.brokers
    }

    /// The topic between the services.
    pub fn topic(&self) -> &str {
        &self.endpoints.topic
    }

    /// The current process id by name (`payment`, `payment-2`, `postgres`, `kafka`).
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.supervisor.pid(name)
    }

    /// All main processes, with `postgres` and `kafka` if this system started them.
    pub fn pids(&self) -> Vec<(String, u32)> {
        self.supervisor.pids().into_iter().collect()
    }

    /// Kills a process (SIGKILL) and returns once it has ended. The supervisor restarts it if the
    /// options say so.
    pub async fn kill(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.kill(name).await
    }

    /// Pauses a process (SIGSTOP), Postgres with its children.
    pub fn pause(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.pause(name)
    }

    /// Resumes a paused process.
    pub fn resume(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.resume(name)
    }

    /// Every process, running or not, with its history.
    pub fn processes(&self) -> Vec<ProcessStatus> {
        self.supervisor.processes()
    }

    /// Changes whenever a process starts, ends, pauses or resumes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.supervisor.changes()
    }

    /// Starts a process that was stopped, or that died and was not restarted. Does not wait until it
    /// is ready.
    pub async fn start_service(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.start_again(name)
    }

    /// Sets a variable of the environment for the next start of a process.
    pub fn set_env(&self, name: &str, variable: &str, value: &str) -> anyhow::Result<()> {
        self.supervisor.set_env(name, variable, value)
    }

    /// Removes a variable that [`System::set_env`] has set.
    pub fn remove_env(&self, name: &str, variable: &str) -> anyhow::Result<()> {
        self.supervisor.remove_env(name, variable)
    }

    /// Stops a process gracefully (SIGTERM) and keeps it down.
    pub async fn stop_service(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.stop(name).await
    }

    /// Deletes all data of the broker and recreates the empty topic. Only for an Apache Kafka that
    /// this system started.
    pub async fn lose_broker_data(&self) -> anyhow::Result<()> {
        let topic = Topic {
            name: self.endpoints.topic.clone(),
            partitions: self.options.partitions,
        };
        self.broker.lose_data(&self.supervisor, &topic).await
    }

    /// Restarts the broker after it lost the second half of one partition. Only for an Apache Kafka that this
    /// system started.
    pub async fn truncate_partition(&self, partition: i32) -> anyhow::Result<()> {
        let topic = &self.endpoints.topic;
        self.broker
            .truncate(&self.supervisor, topic, partition)
            .await
    }

    /// Bytes that the broker stores for the topic. Only for an Apache Kafka that this system started.
    pub fn topic_bytes(&self) -> Option<u64> {
        self.broker.topic_bytes(&self.endpoints.topic)
    }

    /// How many times a process was restarted.
    pub fn restarts(&self, name: &str) -> u32 {
        self.supervisor.restarts(name)
    }

    /// Waits until a service's process (`payment-2`) is ready.
    pub async fn wait_ready(&self, name: &str, timeout: Duration) -> anyhow::Result<()> {
        let url = self
            .process_url(name)
            .with_context(|| format!("no service process is named {name}"))?;
        launch::wait_ready(&self.supervisor, name, url, &self.logs(name), timeout).await
    }

    /// Waits for the next exit of a process that no earlier call has returned. An exit before the call
    /// counts, so that a crash cannot be missed. Exits by [`System::kill`] and
    /// [`System::stop_service`] do not count.
    pub async fn wait_exit(&self, name: &str, timeout: Duration) -> anyhow::Result<ExitStatus> {
        self.supervisor.wait_exit(name, timeout).await
    }

    /// The log file of a process.
    pub fn logs(&self, name: &str) -> PathBuf {
        launch::log_path(self.state_dir(), name)
    }

    /// The directory of logs and `system.json`.
    pub fn state_dir(&self) -> &Path {
        &self.endpoints.state_dir
    }

    /// The base URL of one process.
    fn process_url(&self, name: &str) -> Option<&str> {
        Service::ALL.into_iter().find_map(|service| {
            let urls = self.endpoints.urls.get(service);
            let has_name = |index: &usize| launch::process_name(service, *index) == name;
            let index = (0..urls.len()).find(has_name)?;
            Some(urls[index].as_str())
        })
    }

    /// Stops everything gracefully and removes what belongs only to this system.
    pub async fn stop(self) -> anyhow::Result<()> {
        let System {
            endpoints,
            description_writer,
            supervisor,
            cluster,
            broker,
            server,
            options,
            state_dir,
            binaries: _,
            network: _,
        } = self;
        drop(description_writer);
        Endpoints::remove(&endpoints.state_dir);
        let mut infrastructure = broker.process_names();
        infrastructure.push(postgres::PROCESS_NAME.to_owned());
        let names = supervisor.names().into_iter();
        let services = names.filter(|name| !infrastructure.contains(name));
        supervisor.stop_all(services).await?;

        // An existing server or broker outlives this system, so its databases and topic are removed.
        if cluster.is_none() && !options.disposable_server && !endpoints.prefix.is_empty() {
            for service in Service::ALL {
                let name = launch::database_name(&endpoints.prefix, service);
                database::drop_now(&server, &name).await?;
            }
        }
        if !broker.is_private() && !endpoints.prefix.is_empty() {
            broker.delete_topic(&endpoints.topic).await?;
        }
        broker.stop(&supervisor).await?;
        if let Some(cluster) = cluster {
            cluster.stop(&supervisor).await?;
        }
        drop(supervisor);
        state_dir.discard();
        Ok(())
    }
}
