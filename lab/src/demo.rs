//! `lab demo`: starts the whole system and tells its story, one chapter per promise, ending with the
//! PSP's books. Every claim is checked as it is told, so a broken promise ends the demo with an error.
//!
//! A chapter is a function in `demo/<chapter>.rs`; to add one, write it and name it in `tell`.

mod books;
mod kill_payment;
mod other_body;
mod out_of_stock;
mod parallel;
mod pay_again;
mod place;
mod receipts;
mod retry;
mod slow_provider;
mod story;

use anyhow::{anyhow, bail};

use endpoints::Endpoints;
use endpoints::Service;
use story::Story;
use testkit::broker::Kafka;
use testkit::signals::StopSignals;
use testkit::system::{Ports, System, SystemOptions};

/// Short, so that the chapter about a dead payment service waits seconds for the lease, not minutes.
const LEASE_MS: u64 = 3_000;
/// Must stay below the lease: a call that outlives it could be made twice at once.
const PSP_TIMEOUT_MS: u64 = 2_500;
/// What a slow card takes: long enough that everybody in front gives up, short enough for a demo.
const PSP_SLOW_MS: u64 = 10_000;

/// Start the whole system here and watch it keep its promise.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// End after the story instead of leaving the system up until Ctrl-C.
    #[arg(long)]
    once: bool,
    /// The broker: `embedded` (nothing to install) or `apache` (a real Apache Kafka).
    #[arg(long, default_value = "embedded")]
    kafka: Kafka,
    /// Where the services listen: `fixed` (8081 and up, as the documents say) or `free`.
    #[arg(long, default_value = "fixed", value_parser = parse_ports)]
    ports: Ports,
}

/// Tells the story once, then leaves the system to the reader.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    println!(
        "Starting Postgres, a broker, a mail sink and five services as processes of this machine …"
    );
    let system = tokio::select! {
        system = System::start(options(&args)) => system?,
        _ = signals.next() => bail!("interrupted before everything was up"),
    };
    let told = tokio::select! {
        told = tell(&system) => told,
        _ = signals.next() => Err(anyhow!("interrupted")),
    };
    if told.is_ok() && !args.once {
        invite(&system);
        signals.next().await;
    }
    let stopped = system.stop().await;
    told.and(stopped)
}

async fn tell(system: &System) -> anyhow::Result<()> {
    let mut story = Story::open(system).await?;
    let first = place::tell(&mut story).await?;
    retry::tell(&mut story, &first).await?;
    parallel::tell(&mut story).await?;
    other_body::tell(&mut story, &first).await?;
    kill_payment::tell(&mut story).await?;
    pay_again::tell(&mut story).await?;
    out_of_stock::tell(&mut story).await?;
    slow_provider::tell(&mut story).await?;
    receipts::tell(&mut story).await?;
    books::tell(&mut story).await
}

fn options(args: &Args) -> SystemOptions {
    let mut options = SystemOptions {
        kafka: args.kafka.clone(),
        ports: args.ports,
        state_dir: Some(Endpoints::default_state_dir()),
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

fn invite(system: &System) {
    let order = system.url(Service::Order);
    println!("\nThe system stays up until Ctrl-C. Things to try from another terminal:\n");
    println!("  curl -i {order}/orders -H 'Authorization: Bearer demo-key-acme' \\");
    println!("       -H 'Idempotency-Key: my-first-key' -H 'Content-Type: application/json' \\");
    println!("       -d '{}'", endpoints::client::order_body(1));
    println!("  … the same again: the same bytes, with Idempotent-Replayed: true");
    println!("  chargeonce verify                      every check against this system");
    println!(
        "  kill -9 {:<8}                payment dies; the supervisor and the lease repair it",
        system.pid("payment").unwrap_or_default()
    );
    println!(
        "  ls {}   one receipt for each order, as mail files",
        system.endpoints().mails_dir.display()
    );
    println!(
        "  psql '{}' -c 'select reference, count(*) from charges group by 1'",
        system.database_url(Service::Psp)
    );
}
