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

/// A service that is bound to its ports and ready to run.
pub struct Application {
    name: &'static str,
    listener: TcpListener,
    router: Router,
    operator_listener: TcpListener,
    operator_router: Router,
    workers: Vec<Worker>,
}

impl Application {
    /// The customers' port. With port 0 in the settings, this is the port that the system picked.
    pub fn port(&self) -> anyhow::Result<u16> {
        port(&self.listener)
    }

    /// The operators' port.
    pub fn operator_port(&self) -> anyhow::Result<u16> {
        port(&self.operator_listener)
    }

    /// Runs both HTTP servers and all workers until shutdown, or until one of them fails.
    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let address = self.listener.local_addr().context("reading the port")?;
        let operator_address = self.operator_listener.local_addr();
        let operator_address = operator_address.context("reading the operator port")?;
        tracing::info!(service = self.name, %address, %operator_address, "service started");
        let mut workers = Workers::new(shutdown);
        for Worker { name, start } in self.workers {
            let worker = start(workers.shutdown());
            workers.spawn(name, worker);
        }
        let server = http::serve(self.listener, self.router, workers.shutdown());
        workers.spawn("HTTP server", server);
        let (listener, router) = (self.operator_listener, self.operator_router);
        let server = http::serve(listener, router, workers.shutdown());
        workers.spawn("operator HTTP server", server);
        workers.run().await
    }
}

fn port(listener: &TcpListener) -> anyhow::Result<u16> {
    let address = listener.local_addr().context("reading the port")?;
    Ok(address.port())
}
