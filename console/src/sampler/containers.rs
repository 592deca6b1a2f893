//! Which containers respond. Without a supervisor, the console notices deaths and returns in this way.

use std::time::Duration;

use endpoints::Service;
use reqwest::Url;
use testkit::{broker, postgres};
use tokio::net::TcpStream;

use crate::app::App;
use crate::controls::Up;
use crate::state::MarkKind;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(400);
const POSTGRES_PORT: u16 = 5432;

/// Adds the broker and the database.
pub(super) async fn add_infrastructure(app: &App, up: &mut Up) {
    let first = app
        .endpoints()
        .brokers
        .split(',')
        .next()
        .unwrap_or_default();
    let database = Url::parse(app.endpoints().database_url(Service::Order)).ok();
    let database = database.as_ref().and_then(|url| {
        let port = url.port().unwrap_or(POSTGRES_PORT);
        Some(format!("{}:{port}", url.host_str()?))
    });
    let database = database.unwrap_or_default();
    let (broker, database) = tokio::join!(accepts(first), accepts(&database));
    up.insert(broker::PROCESS_NAME.to_owned(), broker);
    up.insert(postgres::PROCESS_NAME.to_owned(), database);
}

async fn accepts(address: &str) -> bool {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    matches!(connected, Ok(Ok(_)))
}

/// Marks what stopped responding since the last sample, and what responds again.
pub(super) fn compare(app: &App, before: &Up, now: &Up) {
    for (name, is_up) in now {
        let (kind, label) = match (before.get(name), is_up) {
            (Some(true), false) => (MarkKind::Death, format!("{name} does not respond")),
            (Some(false), true) => (MarkKind::Return, format!("{name} is back")),
            _ => continue,
        };
        if kind == MarkKind::Death {
            app.hub.memory().disarm(name);
        }
        app.hub.mark(kind, label, Some(name), None);
    }
}
