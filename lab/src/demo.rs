//! `lab demo`: starts the whole system and shows its promises, one per chapter. Every claim is
//! checked, so a broken promise ends the demo with an error. The last chapter counts every order in
//! the provider's books.
//!
//! A chapter is `demo/<chapter>.rs` with a `run` function. To add one, call it in `run_chapters`.

mod context;
mod kill_payment;
mod ledger;
mod other_body;
mod out_of_stock;
mod parallel;
mod pay_again;
mod place;
mod receipts;
mod retry;
mod slow_provider;

use std::sync::Arc;

use ::console::Console;
use anyhow::{anyhow, bail};
use context::Demo;
use endpoints::{Endpoints, Service};
use testkit::binaries;
use testkit::broker::Kafka;
use testkit::signals::StopSignals;
use testkit::smtp_sink::MAILBOX_NAME;
use testkit::system::{Ports, System, SystemOptions};

use crate::console::{ConsoleArgs, stop_both};

/// Short, so that the chapter about a killed payment service waits seconds for the lease to expire.
const LEASE_MS: u64 = 3_000;
/// Shorter than the lease: a call that outlives its lease could run twice at the same time.
const PSP_TIMEOUT_MS: u64 = 2_500;
/// How long the provider takes for a slow card: longer than every timeout of its callers.
const PSP_SLOW_MS: u64 = 10_000;

/// Start the whole system and show what it promises, step by step.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stop the system after the last chapter instead of leaving it up until Ctrl-C.
    #[arg(long)]
    once: bool,
    /// Kafka broker: `embedded` (nothing to install) or `apache` (a real Apache Kafka).
    #[arg(long, default_value = "embedded")]
    kafka: Kafka,
    /// Where the services listen: `fixed` (8081 to 8084, 8090, 8025, 9081 to 9085) or `free`.
    #[arg(long, default_value = "fixed", value_parser = parse_ports)]
    ports: Ports,
    #[command(flatten)]
    console: ConsoleArgs,
}

/// Runs every chapter once, then leaves the system up.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let mut options = options(&args);
    // A run that ends by itself leaves no time to look at a page.
    let console = match args.once {
        true => args.console.only_on_request(),
        false => args.console,
    };
    let prepared = console
        .prepare(args.ports == Ports::Free, &mut options)
        .await?;
    println!("Starting Postgres, a Kafka broker, a mail sink and five services as processes …");
    let system = tokio::select! {
        system = System::start(options) => Arc::new(system?),
        _ = signals.next() => bail!("interrupted before the system was up"),
    };
    let console = prepared
        .map(|prepared| prepared.start(&system))
        .transpose()?;
    if let Some(console) = &console {
        println!("\nWatch along in the browser: {}", console.link());
    }
    let result = tokio::select! {
        result = run_chapters(&system) => result,
        _ = signals.next() => Err(anyhow!("interrupted")),
    };
    if result.is_ok() && !args.once {
        print_next_steps(&system, console.as_ref());
        signals.next().await;
    }
    let stopped = stop_both(console, system).await;
    result.and(stopped)
}

const INTRODUCTION: &str = "
The promise: one order, one charge, whatever fails. The demo places orders over HTTP and breaks
something in each chapter. The proof is in the database of the payment provider (PSP), a mock that
counts every charge it makes. `$` starts a request or command, `←` a response, `psp=#` and
`payment=#` a query in that service's database. Every claim is checked: a broken promise ends the
demo with an error.";

async fn run_chapters(system: &System) -> anyhow::Result<()> {
    let mut demo = Demo::new(system).await?;
    println!("{INTRODUCTION}");
    let first = place::run(&mut demo).await?;
    retry::run(&mut demo, &first).await?;
    parallel::run(&mut demo).await?;
    other_body::run(&mut demo, &first).await?;
    kill_payment::run(&mut demo).await?;
    pay_again::run(&mut demo).await?;
    out_of_stock::run(&mut demo).await?;
    slow_provider::run(&mut demo).await?;
    receipts::run(&mut demo).await?;
    ledger::run(&mut demo).await
}

fn options(args: &Args) -> SystemOptions {
    let mut options = SystemOptions {
        kafka: args.kafka.clone(),
        ports: args.ports,
        state_dir: Some(Endpoints::default_state_dir()),
        network_cuts: true,
        ..SystemOptions::default()
    };
    options.env.payment = vec![
        ("LEASE_MS".to_owned(), LEASE_MS.to_string()),
        ("PSP_TIMEOUT_MS".to_owned(), PSP_TIMEOUT_MS.to_string()),
    ];
    let slow = ("PSP_SLOW_MS".to_owned(), PSP_SLOW_MS.to_string());
    options.env.psp.push(slow);
    options
}

fn parse_ports(text: &str) -> Result<Ports, String> {
    match text {
        "fixed" => Ok(Ports::Fixed),
        "free" => Ok(Ports::Free),
        _ => Err("expected `fixed` or `free`".to_owned()),
    }
}

fn print_next_steps(system: &System, console: Option<&Console>) {
    let order = system.url(Service::Order);
    let chargeonce = binaries::command("chargeonce");
    if let Some(console) = console {
        println!("\nThe console: place orders, kill payment mid-charge, and see the proof:");
        println!("  {}", console.link());
    }
    println!("\nThe system stays up until Ctrl-C. Try these in another terminal:\n");
    println!("Place an order. Send it twice: the second response is a replay.");
    println!("  curl -i {order}/orders -H 'Authorization: Bearer demo-key-acme' \\");
    println!("       -H 'Idempotency-Key: my-first-key' -H 'Content-Type: application/json' \\");
    println!("       -d '{}'", endpoints::client::order_body(1));
    println!("\nTest the promises over the API, and check every invariant in the databases:");
    println!("  {chargeonce} verify");
    println!("  {chargeonce} check");
    println!("\nKill payment. The lab restarts it, and it resumes its work:");
    println!("  kill -9 {}", system.pid("payment").unwrap_or_default());
    println!("\nRead the receipts:");
    let mailbox = system.endpoints().mails_dir.join(MAILBOX_NAME);
    println!("  less {}", mailbox.display());
    println!("\nCount charges per order in the provider's database:");
    println!(
        "  psql '{}' -c 'select reference, count(*) from charges group by 1'",
        system.database_url(Service::Psp)
    );
}
