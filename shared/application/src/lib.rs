#![doc = include_str!("../README.md")]

mod builder;
mod settings;

use anyhow::Context as _;
use axum::Router;
use service_kit::{Workers, http};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use builder::Builder;
pub use settings::Settings;

use builder::Worker;

/// A service that is bound to its port and ready to run.
pub struct Application {
    name: &'static str,
    listener: TcpListener,
    router: Router,
    workers: Vec<Worker>,
}

impl Application {
    /// The port that was bound. With port 0 in the settings, this is the port that the system
    /// picked.
    pub fn port(&self) -> anyhow::Result<u16> {
        let address = self.listener.local_addr().context("reading the port")?;
        Ok(address.port())
    }

    /// Runs the HTTP server and all workers until shutdown, or until one of them fails.
    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let address = self.listener.local_addr().context("reading the port")?;
        tracing::info!(service = self.name, %address, "service started");
        let mut workers = Workers::new(shutdown);
        for Worker { name, start } in self.workers {
            let worker = start(workers.shutdown());
            workers.spawn(name, worker);
        }
        let server = http::serve(self.listener, self.router, workers.shutdown());
        workers.spawn("HTTP server", server);
        workers.run().await
    }
}
