//! The console: a web page about one running system. It shows the proof, the flow of orders and the
//! timeline of each order. It places orders, kills and pauses processes, and cuts connections.
//!
//! The page is embedded in the program. It gets a `state` over server-sent events. The `sampler` builds a
//! state at most twice a second, and rarely while no page is open. Actions of the page (`actions`) need the
//! console's token. The services send their spans to the console's own collector (`spans`).

mod actions;
mod app;
mod assets;
mod catalog;
mod controls;
mod docker;
mod hub;
mod listeners;
mod order_timeline;
mod problem;
mod protection;
mod queries;
mod routes;
mod sampler;
mod settings;
mod spans;
mod state;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use endpoints::operator::Token;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use app::App;

pub use controls::Controls;
pub use docker::Docker;
pub use listeners::{Listeners, trace_env};
pub use queries::APPLICATION_NAME;
pub use settings::{ADDRESS_DEFAULT, Options};

/// A running console. End it with [`Console::stop`].
pub struct Console {
    address: SocketAddr,
    token: Token,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    background: TaskTracker,
}

impl Console {
    /// Serves the page and watches the system until [`Console::stop`].
    pub fn start(listeners: Listeners, options: Options) -> anyhow::Result<Self> {
        let address = listeners.page.local_addr()?;
        let token = options.token.clone();
        let stop = CancellationToken::new();
        let app = Arc::new(App::new(options, stop.clone())?);
        let background = app.background.clone();
        let mut tasks = JoinSet::new();
        let page = axum::serve(listeners.page, routes::table(Arc::clone(&app)));
        let spans = axum::serve(listeners.spans, spans::receiver::table(Arc::clone(&app)));
        // Open streams end with `stop`, so neither server waits for a page.
        tasks.spawn(until_stopped(
            page.with_graceful_shutdown(stop.clone().cancelled_owned())
                .into_future(),
        ));
        tasks.spawn(until_stopped(
            spans
                .with_graceful_shutdown(stop.clone().cancelled_owned())
                .into_future(),
        ));
        tasks.spawn(sampler::run(Arc::clone(&app)));
        tasks.spawn(sampler::proof::check(Arc::clone(&app)));
        tasks.spawn(sampler::watch_processes(app));
        Ok(Self {
            address,
            token,
            stop,
            tasks,
            background,
        })
    }

    /// The address of the page.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The page's URL with the token. The page removes the token from the address bar.
    pub fn link(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token.reveal())
    }

    /// Closes every connection and waits until no task of the console is left.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // A connection that does not end is dropped with its task.
        let _ = tokio::time::timeout(settings::STOP_TIMEOUT, ended).await;
        self.tasks.shutdown().await;
        // A reset has its own time limits, and must not stop halfway.
        self.background.close();
        self.background.wait().await;
    }
}

/// Runs a server until it is stopped: axum retries when it cannot accept a connection.
async fn until_stopped(server: impl Future<Output = std::io::Result<()>>) {
    // `axum::serve` never returns an error.
    let _ = server.await;
}

/// A token from the setting, or a new one.
pub fn token_or_random(setting: Option<String>) -> anyhow::Result<Token> {
    match setting.filter(|text| !text.is_empty()) {
        None => Ok(Token::random()),
        Some(text) => protection::check_token(&text)
            .map(|()| Token::from(text))
            .context("CONSOLE_TOKEN"),
    }
}
