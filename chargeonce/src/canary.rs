//! `chargeonce canary`: places real orders on a schedule and counts their charges in the provider's books.

mod books;
mod exporter;
mod one_order;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use endpoints::client::Client;
use endpoints::{Endpoints, Service};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::system::SystemArgs;
use books::Books;
use one_order::{Canary, OrderReport};

/// Place a real order on a schedule, and check that it ships with exactly one charge.
///
/// Run it next to a production system: it notices faults that only a complete order shows. The canary pays each
/// order with a test payment method and retries with the same key. It waits until the order has shipped, counts
/// its charges in the provider's books and prints one line. It exports the result as metrics
/// (`GET /metrics` at --listen) for the alerts CanaryFailed and CanarySilent.
///
/// It counts charges in the provider's database (--psp-database-url, or the one in the description of the
/// system), or over the provider's API (--psp-url).
///
/// Exits with 0 after SIGTERM or Ctrl-C. With --once: with 0 if the order shipped with one charge, and with 1
/// otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Place one order, print the result and exit, without metrics.
    #[arg(long)]
    once: bool,
    /// Time between the starts of two orders.
    #[arg(long, env = "CANARY_INTERVAL_SECONDS", default_value_t = 60, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
    /// Longest time from the request until the order has shipped.
    #[arg(long, env = "CANARY_WITHIN_SECONDS", default_value_t = 60, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..))]
    within: u64,
    /// Address of the metrics; port 0 picks a free port.
    #[arg(long, env = "CANARY_LISTEN", default_value = "127.0.0.1:8085")]
    listen: SocketAddr,
    /// API key to order with. Give the canary its own principal.
    #[arg(
        long,
        env = "CANARY_API_KEY",
        default_value = "demo-key-acme",
        hide_env_values = true
    )]
    key: String,
    /// Payment method to pay with. Use one that the provider does not bill.
    #[arg(long, env = "CANARY_PAYMENT_METHOD", default_value = "pm_card_ok")]
    payment_method: String,
    /// SKU to order: one unit, at a price of 1.00.
    #[arg(long, env = "CANARY_SKU", default_value = "SKU-99")]
    sku: String,
    /// Base URL of the order service.
    #[arg(long)]
    url: Option<String>,
    /// URL of the provider's database, to count charges in its books.
    #[arg(long, value_name = "URL")]
    psp_database_url: Option<String>,
    /// Base URL of the provider's API, to count charges there.
    #[arg(long, value_name = "URL", conflicts_with = "psp_database_url")]
    psp_url: Option<String>,
    #[command(flatten)]
    system: SystemArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let canary = args.canary()?;
    if args.once {
        let report = canary.order().await;
        println!("{report}");
        return Ok(match report.is_good() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        });
    }
    exporter::init()?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", args.listen))?;
    println!("metrics at http://{}/metrics", listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        served = exporter::serve(listener) => served?,
        () = place_orders(&canary, Duration::from_secs(args.interval)) => {}
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Places one order after the other until the process ends. An order that takes longer than the interval delays
/// the next one.
async fn place_orders(canary: &Canary, interval: Duration) {
    let mut schedule = tokio::time::interval(interval);
    schedule.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        schedule.tick().await;
        let report: OrderReport = canary.order().await;
        println!("{report}");
        exporter::record(&report);
    }
}

impl Args {
    /// Flags take precedence over the description of the system.
    fn books(&self, system: Option<Endpoints>) -> anyhow::Result<Books> {
        if let Some(url) = &self.psp_database_url {
            return Ok(Books::Database(url.clone()));
        }
        if let Some(url) = &self.psp_url {
            return Ok(Books::Api(url.clone()));
        }
        let system = system.context(
            "the canary needs the provider's books to count charges: name them with --psp-database-url or \
             --psp-url, or describe the system with CHARGEONCE_SYSTEM",
        )?;
        let (database, api) = (system.database_url(Service::Psp), system.url(Service::Psp));
        Ok(match database.is_empty() {
            false => Books::Database(database.to_owned()),
            true => Books::Api(api.to_owned()),
        })
    }

    fn canary(&self) -> anyhow::Result<Canary> {
        let system = self.system.find();
        let order_url = match &self.url {
            Some(url) => url.clone(),
            None => match &system {
                Ok(system) => system.url(Service::Order).to_owned(),
                Err(error) => anyhow::bail!("{error:#}; or name the order service with --url"),
            },
        };
        Ok(Canary {
            client: Client::new(&order_url, &self.key)?,
            books: self.books(system.ok())?,
            body: one_order::body(&self.sku, &self.payment_method),
            within: Duration::from_secs(self.within),
        })
    }
}
