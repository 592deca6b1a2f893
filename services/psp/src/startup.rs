//! Binds, wires, runs, and stops in order.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use service_kit::{Workers, database, migration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::batch_writer::{self, BatchWriter};
use crate::config::{Config, Migration};
use crate::droppable_connection::{DropHandle, DroppableListener};
use crate::provider::Provider;
use crate::routes;

const NAME: &str = "psp";

pub struct Application {
    address: SocketAddr,
    listener: DroppableListener,
    router: Router,
    provider: Arc<Provider>,
    writers: Vec<BatchWriter>,
}

impl Application {
    /// Binds the port, but answers nothing yet. The database may still be away.
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        let pool = database::connect_lazy(&config.database, NAME)?;
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("binding {}", config.listen))?;
        let address = listener.local_addr().context("reading the port")?;
        let (queue, writers) = batch_writer::create(&pool, config.charging.key_window());
        let provider = Arc::new(Provider::new(config.charging, pool, queue));
        Ok(Self {
            address,
            listener: DroppableListener::new(listener),
            router: routes::table(Arc::clone(&provider)),
            provider,
            writers,
        })
    }

    /// The port that was bound, for whoever asked for any.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Serves until shutdown; then open requests, and those whose caller has gone, may finish.
    /// What takes longer than the drain time is dropped, undone and unstored.
    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        tracing::info!(address = %self.address, "mock provider is up");
        let mut workers = Workers::new(shutdown);
        let server = serve(self.listener, self.router, workers.shutdown());
        workers.spawn("http", server);
        let shutdown = workers.shutdown();
        workers.spawn("requests", async move {
            shutdown.cancelled().await;
            self.provider.close().await;
            Ok(())
        });
        for writer in self.writers {
            // A writer ends when the last request that could enqueue a job has ended.
            workers.spawn("batch_writer", writer.run());
        }
        workers.run().await
    }
}

/// Like `service_kit::http::serve`, over connections that a fault can drop.
fn serve(
    listener: DroppableListener,
    router: Router,
    shutdown: CancellationToken,
) -> impl Future<Output = anyhow::Result<()>> {
    let service = router.into_make_service_with_connect_info::<DropHandle>();
    async move {
        axum::serve(listener, service)
            .with_graceful_shutdown(shutdown.cancelled_owned())
            .await
            .context("serving")
    }
}

pub async fn migrate(migration: Migration) -> anyhow::Result<()> {
    let migrators = vec![sqlx::migrate!("../../migrations/psp")];
    migration::run(&migration.database_url, migrators).await
}
