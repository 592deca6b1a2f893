//! The console: next to the system of `lab up` and `lab demo`, or alone with `lab console`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ::console::{ADDRESS_DEFAULT, Console, Controls, Docker, Listeners, Options};
use anyhow::{Context, ensure};
use endpoints::operator::Token;
use endpoints::{Endpoints, Service};
use testkit::signals::StopSignals;
use testkit::system::{System, SystemOptions};

/// The collector that gets a copy of every span, as for the services themselves.
const COLLECTOR_VAR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Long enough to see on the page that a process is dead.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// Any free port.
const FREE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Options of commands that start a system with its console.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConsoleArgs {
    /// Address of the console in the browser, or `off` [default: 127.0.0.1:8080, or a free port with
    /// `--ports free`].
    #[arg(long, value_name = "ADDRESS")]
    console: Option<Place>,
    /// Token for the console's buttons, at least 8 letters and digits [default: a random one].
    #[arg(
        long,
        env = "CONSOLE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    console_token: Option<String>,
}

/// Where to serve the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Off,
    At(SocketAddr),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Place::Off),
            text => text
                .parse()
                .map(Place::At)
                .map_err(|_| "expected ADDRESS:PORT or `off`".to_owned()),
        }
    }
}

/// A console whose ports are bound, before its system starts.
pub(crate) struct Prepared {
    listeners: Listeners,
    token: Token,
}

impl ConsoleArgs {
    /// The same, without a console unless an address was given.
    pub(crate) fn only_on_request(self) -> Self {
        Self {
            console: self.console.or(Some(Place::Off)),
            ..self
        }
    }

    /// Binds the ports, and lets the services send their spans there.
    pub(crate) async fn prepare(
        self,
        free_port: bool,
        options: &mut SystemOptions,
    ) -> anyhow::Result<Option<Prepared>> {
        let address = match (self.console, free_port) {
            (Some(Place::Off), _) => return Ok(None),
            (Some(Place::At(address)), _) => address,
            (None, true) => FREE,
            (None, false) => ADDRESS_DEFAULT,
        };
        let token = ::console::token_or_random(self.console_token)?;
        let listeners = Listeners::bind(address).await?;
        let env = ::console::trace_env(&listeners.spans_url()?);
        options.restart_delay = RESTART_DELAY;
        for service in Service::ALL {
            options.env.get_mut(service).extend(env.iter().cloned());
        }
        Ok(Some(Prepared { listeners, token }))
    }
}

impl Prepared {
    /// Serves the console of a system that this program runs.
    pub(crate) fn start(self, system: &Arc<System>) -> anyhow::Result<Console> {
        let options = Options {
            endpoints: system.endpoints(),
            controls: Controls::Processes(Arc::clone(system)),
            token: self.token,
            jaeger_url: None,
            hosts: Vec::new(),
            forward_spans_to: collector(),
        };
        Console::start(self.listeners, options)
    }
}

/// Stops the console, then the system that only it shared.
pub(crate) async fn stop_both(console: Option<Console>, system: Arc<System>) -> anyhow::Result<()> {
    if let Some(console) = console {
        console.stop().await;
    }
    let system = Arc::into_inner(system).context("the console still uses the system")?;
    system.stop().await
}

fn collector() -> Option<String> {
    std::env::var(COLLECTOR_VAR)
        .ok()
        .filter(|url| !url.is_empty())
}

/// Serve the console of a system that runs elsewhere, such as in containers.
///
/// CHARGEONCE_SYSTEM describes the system. `lab up` and `lab demo` serve the console of their own system
/// automatically.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the page.
    #[arg(long, env = "CONSOLE_LISTEN", default_value_t = ADDRESS_DEFAULT, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Address to which the services send their spans, as OTLP over HTTP.
    #[arg(
        long,
        env = "CONSOLE_SPANS_LISTEN",
        default_value = "127.0.0.1:4318",
        value_name = "ADDRESS"
    )]
    spans_listen: SocketAddr,
    /// Token for the buttons, at least 8 letters and digits [default: a random one].
    #[arg(long, env = "CONSOLE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// URL of the page as a browser on this machine opens it, for the printed link [default: the address
    /// above].
    #[arg(long, env = "CONSOLE_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Further host names under which the page may be opened, separated by commas.
    #[arg(long, env = "CONSOLE_HOSTS", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Base URL of Jaeger, as a browser reaches it.
    #[arg(long, env = "CONSOLE_JAEGER_URL", value_name = "URL")]
    jaeger_url: Option<String>,
    /// Another collector that gets a copy of every span.
    #[arg(long, env = "CONSOLE_FORWARD_SPANS_TO", value_name = "URL")]
    forward_spans_to: Option<String>,
    /// Docker's socket, if the console may kill and pause containers. A process that can use it has root access to
    /// the machine.
    #[arg(long, env = "CONSOLE_DOCKER_SOCKET", value_name = "PATH")]
    docker_socket: Option<PathBuf>,
    /// Name of the compose project.
    #[arg(long, env = "CONSOLE_COMPOSE_PROJECT", default_value = "chargeonce")]
    compose_project: String,
}

/// Serves the console until a stop signal.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let endpoints = Endpoints::find(None)?;
    ensure!(
        endpoints.lab_pid == 0,
        "the lab that runs this system serves its console; its output has the link"
    );
    let is_set = |text: &String| !text.is_empty();
    let socket = args
        .docker_socket
        .filter(|path| !path.as_os_str().is_empty());
    let docker = socket.map(|path| Docker::new(&path, &args.compose_project));
    let options = Options {
        endpoints,
        controls: Controls::Containers(docker.transpose()?),
        token: ::console::token_or_random(args.token)?,
        jaeger_url: args.jaeger_url.filter(is_set),
        hosts: args.hosts.into_iter().filter(|it| !it.is_empty()).collect(),
        forward_spans_to: args.forward_spans_to.filter(is_set),
    };
    let token = options.token.clone();
    let listeners = Listeners::bind_both(args.listen, args.spans_listen).await?;
    let console = Console::start(listeners, options)?;
    match args.public_url.filter(is_set) {
        Some(url) => println!(
            "Console: {}/#token={}",
            url.trim_end_matches('/'),
            token.reveal()
        ),
        None => println!("Console: {}", console.link()),
    }
    signals.next().await;
    console.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_an_address_or_off() {
        assert_eq!("off".parse(), Ok(Place::Off));
        assert_eq!("127.0.0.1:8080".parse(), Ok(Place::At(ADDRESS_DEFAULT)));
        Place::from_str("8080").unwrap_err();
    }
}
