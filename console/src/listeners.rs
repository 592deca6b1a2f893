//! The two ports of a console: the page, and the collector of spans. They are bound before the system
//! starts, because the services need the collector's address.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, anyhow};
use tokio::net::TcpListener;

/// New traces per second that the order service records. Further orders are not traced, so that spans
/// cost the same at any rate.
const TRACES_PER_SECOND_MAX: u32 = 10;
/// How long a service collects spans before it sends them. Short, so that the page shows moves soon.
const EXPORT_DELAY_MS: u32 = 250;

/// Bound ports.
pub struct Listeners {
    pub(crate) page: TcpListener,
    pub(crate) spans: TcpListener,
}

impl Listeners {
    /// Binds the page to an address and the collector to a free loopback port.
    pub async fn bind(page: SocketAddr) -> anyhow::Result<Self> {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::bind_both(page, free).await
    }

    /// Binds both to given addresses.
    pub async fn bind_both(page: SocketAddr, spans: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self {
            page: bind(page).await?,
            spans: bind(spans).await?,
        })
    }

    /// The base URL of the collector, for the services' exporters.
    pub fn spans_url(&self) -> anyhow::Result<String> {
        Ok(format!("http://{}", self.spans.local_addr()?))
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    let port = address.port();
    bound.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow!(
            "port {port} of the console is in use: find the process with `ss -ltnp 'sport = :{port}'` \
             and stop it, choose another address with `--console 127.0.0.1:PORT`, or start without \
             the page with `--console off`"
        ),
        _ => anyhow::Error::new(error),
    })
    .with_context(|| format!("the console cannot listen on {address}"))
}

/// The environment with which a service sends its spans to the console.
pub fn trace_env(spans_url: &str) -> Vec<(String, String)> {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", spans_url.to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", EXPORT_DELAY_MS.to_string()),
        ("TRACES_PER_SECOND_MAX", TRACES_PER_SECOND_MAX.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
