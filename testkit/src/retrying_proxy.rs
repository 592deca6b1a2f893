//! An impatient gateway in front of a service: it gives up on an answer after a while and sends the
//! request again, as many do in the field. The services behind it must make that harmless.

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

/// Largest body that is kept to be sent again.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How impatient it is.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long it waits for an answer.
    pub timeout: Duration,
    /// How often it sends a request in all.
    pub tries: u32,
}

/// A running gateway; it ends when this is dropped.
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
    /// Starts a gateway in front of the service at `target`, on a free port.
    pub async fn start(target: &str, settings: Settings) -> anyhow::Result<Self> {
        let sent = Arc::new(AtomicU64::new(0));
        let forward = Forward {
            http: reqwest::Client::builder()
                .timeout(settings.timeout)
                .build()
                .context("building the gateway's client")?,
            target: target.trim_end_matches('/').into(),
            tries: settings.tries,
            sent: Arc::clone(&sent),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let router = Router::new().fallback(handle).with_state(forward);
        let server = tokio::spawn(async move {
            // Ends only with the task.
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

    /// Requests that it has sent on so far, repeats included.
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
        match answer(sent).await {
            // What a gateway takes for a failure of the moment.
            Ok((status, ..)) if status.is_server_error() => {}
            Ok(answer) => return answer.into_response(),
            Err(_) => {}
        }
    }
    StatusCode::GATEWAY_TIMEOUT.into_response()
}

type Answer = (StatusCode, axum::http::HeaderMap, Bytes);

async fn answer(sent: reqwest::Result<reqwest::Response>) -> reqwest::Result<Answer> {
    let response = sent?;
    let (status, mut headers) = (response.status(), response.headers().clone());
    headers.remove("transfer-encoding");
    headers.remove("content-length");
    Ok((status, headers, response.bytes().await?))
}
