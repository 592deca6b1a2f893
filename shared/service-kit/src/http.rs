//! The HTTP side of every service: health, readiness, metrics, and the layers around all routes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::progress::Stalled;
use crate::{Problem, Watch, database};

/// Largest request body. An order with the maximum number of items is well below it. [`finish`] applies
/// the limit to extractors. A handler that takes the raw body must apply it itself.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest time the readiness probe waits for the database.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// Adds `/healthz`, `/readyz`, `/metrics` and the layers of every service.
pub fn finish(routes: Router, pool: PgPool) -> Router {
    finish_watched(routes, pool, Watch::default())
}

/// [`finish`] for a service that is not ready while one of its workers hangs.
pub fn finish_watched(routes: Router, pool: PgPool, watch: Watch) -> Router {
    let routes = routes
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(ready).with_state((pool, watch)))
        .route("/metrics", get(metrics))
        .fallback(async || not_found())
        .method_not_allowed_fallback(async || method_not_allowed());
    layered(routes)
}

/// Adds the layers that every listener has: the limit of bodies, a response to panics, and telemetry.
pub fn layered(routes: Router) -> Router {
    routes
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(CatchPanicLayer::custom(|_| {
            Problem::internal().into_response()
        }))
        .layer(middleware::from_fn(telemetry::http::observe))
}

/// Binds the port, so that a port in use ends the program before anything starts.
pub async fn bind(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(listen)
        .await
        .with_context(|| format!("binding {listen}: is the port in use?"))
}

/// Serves until shutdown, then lets open requests finish.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await?;
    Ok(())
}

/// A service without its database, or with a worker that hangs, is alive but not ready, so that a
/// balancer uses another replica.
/// The probe takes a connection from the pool, so an exhausted pool is not ready either.
async fn ready(State((pool, watch)): State<(PgPool, Watch)>) -> Response {
    if let Some(stalled) = watch.stalled().first() {
        return worker_stalled(stalled).into_response();
    }
    let probe = async {
        let mut connection = database::acquire(&pool).await?;
        sqlx::query("select 1").execute(&mut *connection).await
    };
    match database::query_with_timeout(READY_TIMEOUT, probe).await {
        Ok(_) => "ready\n".into_response(),
        Err(_) => Problem::unavailable(READY_TIMEOUT).into_response(),
    }
}

fn worker_stalled(Stalled { worker, since }: &Stalled) -> Problem {
    let detail = format!(
        "The worker `{worker}` has made no progress for {} s. See the log of this service.",
        since.as_secs()
    );
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, "worker_stalled", detail).retry_after(READY_TIMEOUT)
}

async fn metrics() -> impl IntoResponse {
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (content_type, telemetry::metric::render())
}

fn not_found() -> Problem {
    let detail = "No resource has this URL. See /openapi.json for the routes.";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

/// The problem for a URL that exists with other methods.
pub fn method_not_allowed() -> Problem {
    let detail =
        "This URL does not support the method. See the Allow header for those it supports.";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgPoolOptions;

    use super::*;
    use crate::Progress;

    #[tokio::test(start_paused = true)]
    async fn service_with_a_stalled_worker_is_not_ready() {
        let pool = PgPoolOptions::new().connect_lazy("postgres://localhost:1/none");
        let watch = Watch::default();
        let worker = async {
            let progress = Progress::current(Duration::from_secs(10));
            let _step = progress.step();
            tokio::time::sleep(Duration::from_secs(11)).await;
            ready(State((pool.unwrap(), watch.clone()))).await
        };
        let response = watch.worker("relay").of(worker).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = axum::body::to_bytes(response.into_body(), BODY_BYTES_MAX).await;
        let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
        assert!(
            body.contains("worker_stalled") && body.contains("`relay`"),
            "{body}"
        );
    }
}
