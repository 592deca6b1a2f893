//! Checks whether a service on this machine is ready: a health check for containers without a shell
//! or curl.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than the readiness check of the service itself.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Enough for a status line and a few headers. The rest is ignored.
const RESPONSE_BYTES_MAX: u64 = 4096;
const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

/// The service to check.
#[derive(Clone, Debug, clap::Args)]
pub struct Probe {
    /// The address on which the service listens.
    #[arg(long, env = "LISTEN")]
    pub listen: SocketAddr,
}

impl Probe {
    /// Succeeds if the service is ready. Otherwise the error has its status line.
    pub async fn ask(&self) -> anyhow::Result<()> {
        let address = reachable(self.listen);
        let response = timeout(RESPONSE_TIMEOUT, exchange(address))
            .await
            .with_context(|| format!("{address} did not respond in time"))?
            .with_context(|| format!("cannot reach {address}"))?;
        let status = response.lines().next().unwrap_or_default();
        ensure!(
            status.split(' ').nth(1) == Some("200"),
            "not ready: {status}"
        );
        Ok(())
    }
}

async fn exchange(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(REQUEST).await?;
    let mut response = Vec::new();
    stream
        .take(RESPONSE_BYTES_MAX)
        .read_to_end(&mut response)
        .await?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// A service that listens on all addresses is checked on the loopback address.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;
    use tokio::net::TcpListener;

    async fn probe_a_service_with(status: StatusCode) -> anyhow::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let router = Router::new().route("/readyz", get(async move || status));
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let listen = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let outcome = Probe { listen }.ask().await;
        server.abort();
        outcome
    }

    #[tokio::test]
    async fn only_a_ready_service_passes() {
        probe_a_service_with(StatusCode::OK)
            .await
            .expect("is ready");
        let error = probe_a_service_with(StatusCode::SERVICE_UNAVAILABLE)
            .await
            .expect_err("is not ready");
        assert!(error.to_string().contains("503"), "{error}");
    }

    #[tokio::test]
    async fn closed_port_is_not_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let listen = listener.local_addr().expect("its address");
        drop(listener);
        Probe { listen }.ask().await.expect_err("port is closed");
    }
}
