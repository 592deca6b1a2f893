//! Binds, wires, runs, and stops in order.

use std::future::Future;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use service_kit::{Workers, database};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::charging::Provider;
use crate::clerks::{self, Clerk};
use crate::config::Settings;
use crate::line::{Line, Lines};
use crate::routes;

pub struct Application {
    port: u16,
    lines: Lines,
    router: Router,
    provider: Arc<Provider>,
    clerks: Vec<Clerk>,
}

impl Application {
    /// Binds the port, but answers nothing yet. The database may still be away.
    pub async fn build(settings: Settings) -> anyhow::Result<Self> {
        let pool = database::connect_lazy(&settings.database.0, "psp")?;
        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("listening on {}", settings.listen))?;
        let port = listener.local_addr().context("reading the port")?.port();
        let (desk, clerks) = clerks::hire(&pool, settings.charging.key_window());
        let provider = Arc::new(Provider::new(settings.charging, pool, desk));
        Ok(Self {
            port,
            lines: Lines::new(listener),
            router: routes::table(Arc::clone(&provider)),
            provider,
            clerks,
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Serves until shutdown; then open requests, and charges whose caller has gone, may finish.
    /// What takes longer than the drain time is dropped uncharged and unstored.
    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut workers = Workers::new(shutdown);
        let server = serve(self.lines, self.router, workers.shutdown());
        workers.spawn("http", server);
        let shutdown = workers.shutdown();
        workers.spawn("charges", async move {
            shutdown.cancelled().await;
            self.provider.close().await;
            Ok(())
        });
        for clerk in self.clerks {
            // A clerk ends when the last request that could hand it work has ended.
            workers.spawn("clerk", clerk.run());
        }
        workers.run().await
    }
}

/// Like `service_kit::http::serve`, over lines that a fault can cut.
fn serve(
    lines: Lines,
    router: Router,
    shutdown: CancellationToken,
) -> impl Future<Output = anyhow::Result<()>> {
    let service = router.into_make_service_with_connect_info::<Line>();
    async move {
        axum::serve(lines, service)
            .with_graceful_shutdown(shutdown.cancelled_owned())
            .await
            .context("serving")
    }
}
