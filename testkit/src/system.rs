//! The whole system as real processes: databases, broker and services.

mod launch;
mod options;
mod start;
mod state_dir;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::Context;
use tokio_util::task::AbortOnDropHandle;

use crate::broker::Broker;
use crate::postgres::{self, Cluster, database};
use crate::supervisor::Supervisor;
use endpoints::topic::Topic;
use endpoints::{Endpoints, Service};
use state_dir::StateDir;

pub use options::{Env, Ports, Postgres, SystemOptions};

/// A running system. Call [`System::stop`]; dropping it ends the processes without grace, and
/// keeps a state directory of its own for a look at the logs.
#[derive(Debug)]
pub struct System {
    endpoints: Endpoints,
    /// Keeps `system.json` true while processes come and go.
    scribe: AbortOnDropHandle<()>,
    supervisor: Supervisor,
    cluster: Option<Cluster>,
    broker: Broker,
    partitions: i32,
    /// The server that the databases are on.
    server: String,
    /// Whether the server goes after the tests, and the databases with it.
    disposable_server: bool,
    state_dir: StateDir,
}

impl System {
    /// Starts everything and returns once every service says that it is ready.
    pub async fn start(options: SystemOptions) -> anyhow::Result<System> {
        start::start(options).await
    }

    /// Addresses and process ids, as of now.
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

    /// The process id of a current incarnation (`payment`, `payment-2`, `postgres`, `kafka`).
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.supervisor.pid(name)
    }

    /// All main processes, with `postgres` and `kafka` where the lab runs them.
    pub fn pids(&self) -> Vec<(String, u32)> {
        self.supervisor.pids().into_iter().collect()
    }

    /// Kills a process (SIGKILL) and returns once it is gone. The supervisor restarts it,
    /// if the options say so.
    pub async fn kill(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.kill(name).await
    }

    /// Starts a process that was stopped, or that died without being restarted; does not wait
    /// for it to be ready.
    pub async fn start_service(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.start_again(name)
    }

    /// Stops a process in good order (SIGTERM) and keeps it down.
    pub async fn stop_service(&self, name: &str) -> anyhow::Result<()> {
        self.supervisor.stop(name).await
    }

    /// Has the broker lose all its data; the topic is made anew, empty. Only for an Apache Kafka that
    /// the lab runs.
    pub async fn lose_broker_data(&self) -> anyhow::Result<()> {
        let topic = Topic {
            name: self.endpoints.topic.clone(),
            partitions: self.partitions,
        };
        self.broker.lose_data(&self.supervisor, &topic).await
    }

    /// How often a process was restarted after it died.
    pub fn restarts(&self, name: &str) -> u32 {
        self.supervisor.restarts(name)
    }

    /// Waits until a service's process (`payment-2`) answers that it is ready.
    pub async fn wait_ready(&self, name: &str, timeout: Duration) -> anyhow::Result<()> {
        let url = self
            .process_url(name)
            .with_context(|| format!("there is no service process named {name}"))?;
        launch::wait_ready(&self.supervisor, name, url, &self.logs(name), timeout).await
    }

    /// Waits for the next death of a process that no earlier call has returned; one that
    /// happened before the call counts, so that a crash cannot be missed.
    /// Deaths by [`System::kill`] and [`System::stop_service`] are not returned.
    pub async fn wait_exit(&self, name: &str, timeout: Duration) -> anyhow::Result<ExitStatus> {
        self.supervisor.wait_exit(name, timeout).await
    }

    /// The log file of a process.
    pub fn logs(&self, name: &str) -> PathBuf {
        launch::log_path(self.state_dir(), name)
    }

    /// Where logs and `system.json` are.
    pub fn state_dir(&self) -> &Path {
        &self.endpoints.state_dir
    }

    /// The base URL of one process.
    fn process_url(&self, name: &str) -> Option<&str> {
        Service::ALL.into_iter().find_map(|service| {
            let urls = self.endpoints.urls.get(service);
            let is_it = |index: &usize| launch::process_name(service, *index) == name;
            let index = (0..urls.len()).find(is_it)?;
            Some(urls[index].as_str())
        })
    }

    /// Stops everything in good order and removes what was only for this system.
    pub async fn stop(self) -> anyhow::Result<()> {
        let System {
            endpoints,
            scribe,
            supervisor,
            cluster,
            broker,
            server,
            disposable_server,
            state_dir,
            partitions: _,
        } = self;
        drop(scribe);
        Endpoints::remove(&endpoints.state_dir);
        let infrastructure = [postgres::PROCESS_NAME, crate::broker::PROCESS_NAME];
        let names = supervisor.names().into_iter();
        let services = names.filter(|name| !infrastructure.contains(&name.as_str()));
        supervisor.stop_all(services).await?;

        // What is not ours outlives this system, so our things in it have to go.
        if cluster.is_none() && !disposable_server && !endpoints.prefix.is_empty() {
            for service in Service::ALL {
                let name = launch::database_name(&endpoints.prefix, service);
                database::drop_now(&server, &name).await?;
            }
        }
        if !broker.is_ours() && !endpoints.prefix.is_empty() {
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
