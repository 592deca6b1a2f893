//! Assembles the mock payment provider.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use service_kit::{Workers, database, http, migration};
use sqlx::Connection as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::batch_writer::{self, BatchWriter};
use crate::config::{Config, Migration};
use crate::droppable_connection::{DropHandle, DroppableListener};
use crate::outcome_counts;
use crate::provider::Provider;
use crate::routes;
use crate::settler::Settler;

const NAME: &str = "psp";

pub struct Application {
    address: SocketAddr,
    listener: DroppableListener,
    router: Router,
    operator_listener: TcpListener,
    operator_router: Router,
    provider: Arc<Provider>,
    writers: Vec<BatchWriter>,
    settler: Settler,
}

impl Application {
    /// Binds both ports but does not serve yet. The database may still be unreachable.
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        let pool = database::connect_lazy(&config.database, NAME)?;
        let tokens = config.operators.tokens()?;
        let listener = http::bind(config.listen).await?;
        let operator_listener = http::bind(config.operators.operator_listen).await?;
        let address = listener.local_addr().context("reading the port")?;
        outcome_counts::export();
        let settler = Settler::new(pool.clone());
        let (queue, writers) = batch_writer::create(&pool, config.charging.key_window());
        let provider = Arc::new(Provider::new(config.charging, pool, queue));
        Ok(Self {
            address,
            listener: DroppableListener::new(listener),
            router: routes::table(Arc::clone(&provider)),
            operator_listener,
            operator_router: routes::operator_table(Arc::clone(&provider), tokens),
            provider,
            writers,
            settler,
        })
    }

    /// The port that was bound. With port 0 in the settings, this is the one the system picked.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The operators' port.
    pub fn operator_port(&self) -> anyhow::Result<u16> {
        let address = self.operator_listener.local_addr();
        Ok(address.context("reading the operator port")?.port())
    }

    /// Serves until shutdown. Then open requests may finish, even those whose caller hung up.
    /// Requests that take longer than the drain time are dropped, and nothing is stored for them.
    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let operator_port = self.operator_port()?;
        tracing::info!(service = NAME, address = %self.address, operator_port, "service started");
        let mut workers = Workers::new(shutdown);
        let server = serve(self.listener, self.router, workers.shutdown());
        workers.spawn("HTTP server", server);
        let (listener, router) = (self.operator_listener, self.operator_router);
        let server = http::serve(listener, router, workers.shutdown());
        workers.spawn("operator HTTP server", server);
        let shutdown = workers.shutdown();
        workers.spawn("open requests", async move {
            shutdown.cancelled().await;
            self.provider.close().await;
            Ok(())
        });
        workers.spawn("settler", self.settler.run(workers.shutdown()));
        for writer in self.writers {
            // A writer ends when the last request that could enqueue a job has ended.
            workers.spawn("batch writer", writer.run());
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
    let folders = vec![
        sqlx::migrate!("../../migrations/operators"),
        sqlx::migrate!("../../migrations/psp"),
    ];
    let connection = migration::run(&migration.database_url, folders).await?;
    connection.close().await.context("closing the connection")
}
