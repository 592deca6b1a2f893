//! `lab load`: sends orders to a real system as clients do, with retries, duplicates and hang-ups. It
//! measures throughput relative to bare SQL on the same machine, and counts the charges of every
//! accepted order in the provider's books.

mod print;
mod report;
mod run;
mod sampler;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};

use crate::generator::drive::{Arrivals, Plan, StopAfter};
use crate::generator::request::Mix;
use target::Target;
use testkit::broker::Kafka;
use testkit::signals::StopSignals;

/// Send orders to a real system and measure it.
///
/// Starts its own system unless --attach is given. Exits with 1 if an accepted order was not charged
/// exactly once, did not ship, got no receipt, or got contradictory responses.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Closed loop: number of clients. Each waits for its response before it sends the next order.
    #[arg(long, default_value_t = 32, conflicts_with = "rate")]
    clients: usize,
    /// Open loop: orders per second, sent on a fixed schedule even if the system is slow.
    #[arg(long)]
    rate: Option<f64>,
    /// How long to send orders.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Kafka broker of the system to start: `apache`, `apache-3` (three nodes, three copies of every message) or
    /// `embedded`.
    #[arg(long, default_value = "apache", conflicts_with = "attach")]
    kafka: Kafka,
    /// Processes of each service of the system to start. The mock provider has one.
    #[arg(long, default_value_t = 1, conflicts_with = "attach", value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    replicas: u32,
    /// Use a running system instead of starting one.
    #[arg(long)]
    attach: bool,
    /// State directory of a running `lab up` [default: CHARGEONCE_SYSTEM, or the directory that
    /// `lab up` uses by default].
    #[arg(long, value_name = "DIR", requires = "attach")]
    state_dir: Option<PathBuf>,
    /// Share of orders that are sent again after their response.
    #[arg(long, default_value_t = 0.05)]
    retry_share: f64,
    /// Share of orders that are sent twice at the same time.
    #[arg(long, default_value_t = 0.05)]
    duplicate_share: f64,
    /// Share of orders whose client hangs up after sending, and sends them again later.
    #[arg(long, default_value_t = 0.02)]
    hangup_share: f64,
    /// Stop payment, wait for this many accepted orders, start payment, and measure how fast they ship.
    #[arg(long, conflicts_with_all = ["attach", "rate"])]
    backlog: Option<u64>,
    /// How long pgbench runs the intake SQL before the orders are sent.
    #[arg(long, default_value_t = 10)]
    pgbench_seconds: u64,
    /// Do not run pgbench. The report then has no ratios.
    #[arg(long)]
    no_pgbench: bool,
    /// Fail if fewer orders are accepted: such a run would prove nothing.
    #[arg(long, default_value_t = 100)]
    accepted_min: u64,
    /// Also print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Measures one run and fails if a promise was broken.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let plan = args.plan()?;
    let mut signals = StopSignals::listen()?;
    let target = if args.attach {
        Target::attach(args.state_dir.as_deref())?
    } else {
        tokio::select! {
            started = Target::start(args.kafka.clone(), args.replicas) => started?,
            _ = signals.next() => bail!("interrupted before the system was up"),
        }
    };
    let reported = tokio::select! {
        reported = run::measure(&target, &args, plan) => reported,
        _ = signals.next() => Err(anyhow!("interrupted")),
    };
    let stopped = target.stop().await;
    let report = reported?;
    stopped?;
    print!("{}", print::text(&report));
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    let failures = report.failures(args.accepted_min);
    if !failures.is_empty() {
        bail!("the run failed: {}", failures.join("; "));
    }
    println!(
        "  every one of {} accepted orders was charged exactly once",
        report.accepted
    );
    Ok(())
}

impl Args {
    fn plan(&self) -> anyhow::Result<Plan> {
        let mix = Mix {
            retry_share: self.retry_share,
            duplicate_share: self.duplicate_share,
            hangup_share: self.hangup_share,
        };
        let shares = [mix.retry_share, mix.duplicate_share, mix.hangup_share];
        ensure!(
            shares.iter().all(|share| *share >= 0.0) && shares.iter().sum::<f64>() <= 1.0,
            "each share must be between 0 and 1, and their sum at most 1"
        );
        let arrivals = match self.rate {
            Some(rate_per_s) => {
                ensure!(rate_per_s > 0.0, "--rate must be above 0");
                Arrivals::OpenLoop { rate_per_s }
            }
            None => {
                ensure!(self.clients > 0, "--clients must be at least 1");
                Arrivals::ClosedLoop {
                    clients: self.clients,
                }
            }
        };
        let stop_after = match self.backlog {
            Some(orders) => StopAfter::Accepted(orders),
            None => StopAfter::Elapsed(Duration::from_secs(self.seconds)),
        };
        Ok(Plan {
            arrivals,
            stop_after,
            mix,
        })
    }
}
