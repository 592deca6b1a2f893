//! What a console needs to know, and its limits.

use std::net::SocketAddr;
use std::time::Duration;

use endpoints::Endpoints;
use endpoints::operator::Token;

use crate::Controls;

/// Where `lab up` and `lab demo` serve the page.
pub const ADDRESS_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);

/// Longest wait for open requests when the console stops.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// How to run a console.
pub struct Options {
    /// The system to watch.
    pub endpoints: Endpoints,
    /// How to kill, pause and reset its processes.
    pub controls: Controls,
    /// The token that actions need.
    pub token: Token,
    /// Base URL, for a browser, of a Jaeger that has the same traces.
    pub jaeger_url: Option<String>,
    /// Host names, besides the loopback ones, under which a browser may open the page.
    pub hosts: Vec<String>,
    /// An OTLP/HTTP collector that gets a copy of every span.
    pub forward_spans_to: Option<String>,
}
