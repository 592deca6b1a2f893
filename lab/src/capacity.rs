//! `lab capacity`: what a rate of orders needs, by arithmetic from the figures of `lab bench`.

mod assumptions;
mod demand;
mod limits;
mod print;

use std::path::PathBuf;

use anyhow::ensure;

use crate::bench::report::Report;
use assumptions::Assumptions;
use demand::{Costs, Demand};

/// Say what a rate of orders needs in replicas, partitions, brokers, databases and storage.
///
/// Arithmetic from a report of `lab bench`: costs per order grow in proportion to the rate. It also says where one
/// unit of each part is full, and what changes in the design there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A report that `lab bench --json` wrote.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Orders per second.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000.0, 10_000.0, 100_000.0])]
    rate: Vec<f64>,
    #[command(flatten)]
    assumptions: Assumptions,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.assumptions.check()?;
    ensure!(
        !args.rate.is_empty() && args.rate.iter().all(|rate| *rate > 0.0),
        "--rate must be above 0"
    );
    let report = Report::read(&args.from)?;
    let costs = Costs::of(&report)?;
    let demands = args
        .rate
        .iter()
        .map(|rate| Demand::of(*rate, &costs, &args.assumptions));
    let demands: Vec<Demand> = demands.collect();
    let limits = limits::limits(&costs, &args.assumptions);
    print!(
        "{}",
        print::text(&report, &costs, &args.assumptions, &demands, &limits)
    );
    Ok(())
}
