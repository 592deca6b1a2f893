//! `lab load`: drives orders through a real system with all the rudeness of real clients, measures it
//! beside the machine's own limit, and counts every accepted order in the PSP's books.

mod customer;
mod drive;
mod http;
mod percentiles;
mod pgbench;
mod print;
mod report;
mod request;
mod run;
mod settle;
mod tally;
mod target;
mod usage;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};

use drive::{Pace, Plan, Until};
use endpoints::Endpoints;
use request::Mix;
use target::Target;
use testkit::broker::Kafka;
use testkit::signals::StopSignals;

/// Drive orders through a real system and measure it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Closed loop: so many clients, each waiting for its answer before the next order.
    #[arg(long, default_value_t = 32, conflicts_with = "rate")]
    clients: usize,
    /// Open loop: so many orders per second on a fixed schedule, whatever the system does.
    #[arg(long)]
    rate: Option<f64>,
    /// How long to drive.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// The broker of the system that is started: `apache` or `embedded`.
    #[arg(long, default_value = "apache", conflicts_with = "attach")]
    kafka: Kafka,
    /// Use the system that `lab up` runs instead of starting one.
    #[arg(long)]
    attach: bool,
    /// Where a running `lab up` keeps its state.
    #[arg(long, requires = "attach")]
    state_dir: Option<PathBuf>,
    /// Share of orders sent again after they were answered.
    #[arg(long, default_value_t = 0.05)]
    retry_share: f64,
    /// Share of orders sent twice at once.
    #[arg(long, default_value_t = 0.05)]
    duplicate_share: f64,
    /// Share of orders hung up on once fully sent, and sent again later.
    #[arg(long, default_value_t = 0.02)]
    hangup_share: f64,
    /// Stop payment, accept so many orders, start payment, and measure how they are worked off.
    #[arg(long, conflicts_with_all = ["attach", "rate"])]
    backlog: Option<u64>,
    /// How long pgbench runs the intake SQL, before the drive.
    #[arg(long, default_value_t = 10)]
    pgbench_seconds: u64,
    /// Leave pgbench out, and with it the ratios.
    #[arg(long)]
    no_pgbench: bool,
    /// Fewer accepted orders than this and the run counts as failed: it would prove nothing.
    #[arg(long, default_value_t = 100)]
    accepted_min: u64,
    /// Print the report as JSON, too.
    #[arg(long)]
    json: bool,
}

/// One run: limit, drive, settling, books. Fails if any accepted order is not charged exactly once.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let plan = args.plan()?;
    let mut signals = StopSignals::listen()?;
    let target = if args.attach {
        let state_dir = args
            .state_dir
            .clone()
            .unwrap_or_else(Endpoints::default_state_dir);
        Target::attach(&state_dir)?
    } else {
        tokio::select! {
            started = Target::start(args.kafka.clone()) => started?,
            _ = signals.next() => bail!("interrupted before everything was up"),
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
    println!("  one order, one charge: held for all {}", report.accepted);
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
            "the shares must be between 0 and 1, and 1 in sum"
        );
        let pace = match self.rate {
            Some(rate_per_s) => {
                ensure!(rate_per_s > 0.0, "the rate must be above 0");
                Pace::Open { rate_per_s }
            }
            None => {
                ensure!(self.clients > 0, "at least one client is needed");
                Pace::Closed {
                    clients: self.clients,
                }
            }
        };
        let until = match self.backlog {
            Some(orders) => Until::Accepted(orders),
            None => Until::Elapsed(Duration::from_secs(self.seconds)),
        };
        Ok(Plan { pace, until, mix })
    }
}
