//! An HTTP proxy that times out and sends the request again, as many proxies do. The service behind it
//! must make a repeat harmless.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// Largest body that is forwarded.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// When the proxy retries.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long it waits for a response.
    pub timeout: Duration,
    /// How many times it sends a request in total.
    pub tries: u32,
}

/// A running proxy. Dropping it stops it.
#[derive(Debug)]
pub struct RetryingProxy {
    url: String,
    sent: Arc<AtomicU64>,
    _server: AbortOnDropHandle<()>,
}

#[derive(Clone)]
struct Forward {
    http: reqwest::Client,
    target: Arc<str>,
    tries: u32,
    sent: Arc<AtomicU64>,
}

impl RetryingProxy {
    /// Starts a proxy in front of the service at `target`, on a free port.
    pub async fn start(target: &str, settings: Settings) -> anyhow::Result<Self> {
        let sent = Arc::new(AtomicU64::new(0));
        let forward = Forward {
            http: reqwest::Client::builder()
                .timeout(settings.timeout)
                .build()
                .context("building the proxy's client")?,
            target: target.trim_end_matches('/').into(),
            tries: settings.tries,
            sent: Arc::clone(&sent),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = Router::new().fallback(handle).with_state(forward);
        let server = tokio::spawn(async move {
            // Runs until the task is aborted.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            url,
            sent,
            _server: AbortOnDropHandle::new(server),
        })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Requests that it has forwarded so far, repeats included.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

async fn handle(State(forward): State<Forward>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let url = format!("{}{path}", forward.target);
    for _ in 0..forward.tries {
        forward.sent.fetch_add(1, Ordering::Relaxed);
        let mut headers = parts.headers.clone();
        headers.remove("host");
        headers.remove("content-length");
        let request = forward.http.request(parts.method.clone(), &url);
        let sent = request.headers(headers).body(body.clone()).send().await;
        match read(sent).await {
            // Real proxies also retry server errors.
            Ok((status, ..)) if status.is_server_error() => {}
            Ok(response) => return response.into_response(),
            Err(_) => {}
        }
    }
    StatusCode::GATEWAY_TIMEOUT.into_response()
}

type ForwardedResponse = (StatusCode, axum::http::HeaderMap, Bytes);

async fn read(sent: reqwest::Result<reqwest::Response>) -> reqwest::Result<ForwardedResponse> {
    let response = sent?;
    let (status, mut headers) = (response.status(), response.headers().clone());
    headers.remove("transfer-encoding");
    headers.remove("content-length");
    Ok((status, headers, response.bytes().await?))
}
