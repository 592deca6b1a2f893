//! Empties a running system: databases, topic and mails, as after its start.

use std::time::Duration;

use anyhow::{Context, ensure};

use super::{System, launch, start};
use crate::broker;
use crate::postgres::database;
use endpoints::Service;
use endpoints::topic::Topic;

/// How long a service may take from its start until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

impl System {
    /// Whether [`System::reset`] may drop the databases: they are on a server of this system or of a test.
    pub fn can_reset(&self) -> bool {
        self.cluster.is_some() || self.options.disposable_server
    }

    /// Stops the services, recreates databases, topic and mails, and starts the services again. If it
    /// fails halfway, it can be repeated.
    pub async fn reset(&self) -> anyhow::Result<()> {
        ensure!(
            self.can_reset(),
            "the databases are on a server that this system did not start"
        );
        let names = self.service_names();
        for name in &names {
            // A paused process cannot stop gracefully. One that is down needs no resume.
            let _ = self.supervisor.resume(name);
        }
        self.supervisor.stop_all(names.clone()).await?;
        for service in Service::ALL {
            let name = launch::database_name(&self.endpoints.prefix, service);
            database::drop_now(&self.server, &name).await?;
        }
        let migrations =
            start::migrate(&self.endpoints, &self.server, &self.binaries, &self.options);
        let (migrated, emptied) = tokio::join!(migrations, self.empty_topic());
        migrated.context("creating the databases")?;
        emptied.context("emptying the topic")?;
        self.remove_mails()?;
        for name in &names {
            self.supervisor.start_again(name)?;
        }
        for name in &names {
            self.wait_ready(name, READY_TIMEOUT).await?;
        }
        Ok(())
    }

    /// The processes of the services.
    fn service_names(&self) -> Vec<String> {
        let names = Service::ALL.into_iter().flat_map(|service| {
            let replicas = self.endpoints.urls.get(service).len();
            (0..replicas).map(move |index| launch::process_name(service, index))
        });
        names.collect()
    }

    async fn empty_topic(&self) -> anyhow::Result<()> {
        let topic = Topic {
            name: self.endpoints.topic.clone(),
            partitions: self.options.partitions,
        };
        if self.broker.is_embedded() && self.broker.is_private() {
            // It keeps its messages in memory, so a new process has none.
            self.supervisor.stop(broker::PROCESS_NAME).await?;
            self.supervisor.start_again(broker::PROCESS_NAME)?;
            return self.broker.wait_reachable().await;
        }
        self.broker.delete_topic(&topic.name).await?;
        self.broker.create_topic(&topic).await
    }

    fn remove_mails(&self) -> anyhow::Result<()> {
        let entries = std::fs::read_dir(&self.endpoints.mails_dir);
        for entry in entries.into_iter().flatten() {
            std::fs::remove_file(entry?.path())?;
        }
        Ok(())
    }
}
