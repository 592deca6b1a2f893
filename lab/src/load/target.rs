//! The system under load: started by this command, or already running.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use endpoints::{Endpoints, PerService, Service};
use testkit::broker::Kafka;
use testkit::system::{System, SystemOptions};

use crate::measure::usage::{CONSOLE, base_name};

const PAYMENT: &str = "payment";
const READY_WITHIN: Duration = Duration::from_secs(30);

pub(super) enum Target {
    Started(Box<System>),
    Attached(Box<Endpoints>),
}

impl Target {
    pub(super) async fn start(kafka: Kafka, replicas: u32) -> anyhow::Result<Self> {
        let options = SystemOptions {
            kafka,
            replicas: PerService::from_fn(|service| match service {
                Service::Psp => 1,
                _ => replicas,
            }),
            ..SystemOptions::default()
        };
        Ok(Self::Started(Box::new(System::start(options).await?)))
    }

    pub(super) fn attach(state_dir: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self::Attached(Box::new(Endpoints::find(state_dir)?)))
    }

    pub(super) fn order_urls(&self) -> Vec<String> {
        match self {
            Self::Started(system) => system.endpoints().urls.order,
            Self::Attached(endpoints) => endpoints.urls.order.clone(),
        }
    }

    pub(super) fn database_url(&self, service: Service) -> &str {
        match self {
            Self::Started(system) => system.database_url(service),
            Self::Attached(endpoints) => endpoints.database_url(service),
        }
    }

    /// Current process ids: a supervisor may have restarted a service.
    pub(super) fn pids(&self) -> Vec<(String, u32)> {
        match self {
            Self::Started(system) => system.pids(),
            Self::Attached(endpoints) => {
                let now = Endpoints::load(&endpoints.state_dir);
                let pids = now.map_or_else(|_| endpoints.pids.clone(), |now| now.pids);
                // The console runs in the lab that runs the system.
                let lab = (endpoints.lab_pid > 0).then(|| (CONSOLE.to_owned(), endpoints.lab_pid));
                pids.into_iter().chain(lab).collect()
            }
        }
    }

    pub(super) async fn stop_payment(&self) -> anyhow::Result<()> {
        let system = self.started()?;
        for name in payment_processes(system) {
            system.stop_service(&name).await?;
        }
        Ok(())
    }

    /// Returns once payment is ready.
    pub(super) async fn start_payment(&self) -> anyhow::Result<()> {
        let system = self.started()?;
        for name in payment_processes(system) {
            system.start_service(&name).await?;
            system.wait_ready(&name, READY_WITHIN).await?;
        }
        Ok(())
    }

    /// Stops a system that this command started. An attached system keeps running.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Started(system) => system.stop().await,
            Self::Attached(_) => Ok(()),
        }
    }

    fn started(&self) -> anyhow::Result<&System> {
        match self {
            Self::Started(system) => Some(system.as_ref()),
            Self::Attached(_) => None,
        }
        .context("a service can be stopped only in a system that this command started")
    }
}

/// Every replica of payment, running or not.
fn payment_processes(system: &System) -> Vec<String> {
    let names = system.processes().into_iter().map(|process| process.name);
    names.filter(|name| base_name(name) == PAYMENT).collect()
}
