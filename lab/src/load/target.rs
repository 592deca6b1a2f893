//! The system under load: one of our own, or one that `lab up` already runs.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use endpoints::Endpoints;
use endpoints::Service;
use testkit::broker::Kafka;
use testkit::system::{System, SystemOptions};

const PAYMENT: &str = "payment";
const READY_WITHIN: Duration = Duration::from_secs(30);

pub(super) enum Target {
    Own(Box<System>),
    Attached(Box<Endpoints>),
}

impl Target {
    pub(super) async fn start(kafka: Kafka) -> anyhow::Result<Self> {
        let options = SystemOptions {
            kafka,
            ..SystemOptions::default()
        };
        Ok(Self::Own(Box::new(System::start(options).await?)))
    }

    pub(super) fn attach(state_dir: &Path) -> anyhow::Result<Self> {
        Ok(Self::Attached(Box::new(Endpoints::load(state_dir)?)))
    }

    pub(super) fn order_urls(&self) -> Vec<String> {
        match self {
            Self::Own(system) => system.endpoints().urls.order,
            Self::Attached(endpoints) => endpoints.urls.order.clone(),
        }
    }

    pub(super) fn database_url(&self, service: Service) -> &str {
        match self {
            Self::Own(system) => system.database_url(service),
            Self::Attached(endpoints) => endpoints.database_url(service),
        }
    }

    /// As of now: a supervisor may have started a service again.
    pub(super) fn pids(&self) -> Vec<(String, u32)> {
        match self {
            Self::Own(system) => system.pids(),
            Self::Attached(endpoints) => {
                let now = Endpoints::load(&endpoints.state_dir);
                now.map_or_else(|_| endpoints.pids.clone(), |now| now.pids)
                    .into_iter()
                    .collect()
            }
        }
    }

    pub(super) async fn stop_payment(&self) -> anyhow::Result<()> {
        self.own()?.stop_service(PAYMENT).await
    }

    /// Returns once payment says it is ready.
    pub(super) async fn start_payment(&self) -> anyhow::Result<()> {
        let system = self.own()?;
        system.start_service(PAYMENT).await?;
        system.wait_ready(PAYMENT, READY_WITHIN).await
    }

    /// Ends a system of our own; one that we attached to goes on.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Own(system) => system.stop().await,
            Self::Attached(_) => Ok(()),
        }
    }

    fn own(&self) -> anyhow::Result<&System> {
        match self {
            Self::Own(system) => Some(system.as_ref()),
            Self::Attached(_) => None,
        }
        .context("a service can be stopped only in a system that this command started")
    }
}
