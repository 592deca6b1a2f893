//! Upgrades a system from an earlier release to this one.

use anyhow::Context as _;
use endpoints::Service;

use super::{System, launch};

impl System {
    /// Applies the migrations of this release to a service's database. The service may run.
    pub async fn migrate(&self, service: Service) -> anyhow::Result<()> {
        let program = self.binaries.path(service.name())?;
        let url = self.database_url(service).to_owned();
        let log = launch::migration_log(self.state_dir(), service);
        launch::migrate(service, program, url, log, self.options.demo_data).await
    }

    /// Makes the next start of a process (`payment-2`) run this release.
    pub fn upgrade(&self, name: &str) -> anyhow::Result<()> {
        let is_of = |service: &Service| {
            let replicas = 0..self.endpoints.urls.get(*service).len();
            replicas
                .into_iter()
                .any(|index| launch::process_name(*service, index) == name)
        };
        let service = Service::ALL.into_iter().find(is_of);
        let service = service.with_context(|| format!("no service process is named {name}"))?;
        let program = self.binaries.path(service.name())?;
        self.supervisor.set_program(name, program)
    }
}
