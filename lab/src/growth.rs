//! `lab growth`: what an order costs while the tables grow, what their maintenance costs, and what a replay costs.

mod expiring;
mod fill;
mod history;
mod maintenance;
mod print;
mod report;
mod size;
mod tables;
mod template;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use chrono::Utc;
use testkit::broker::Kafka;
use testkit::progress::Progress;
use testkit::signals::StopSignals;

use history::RETENTION;
use report::{Report, SizeResult};

/// Where `--json` writes for `-`.
const STANDARD_OUTPUT: &str = "-";

/// Measure what an order costs while the tables grow.
///
/// For each size it starts a system, fills its tables by COPY with copies of real, finished orders, sends the same
/// number of new orders, and repeats their requests. Meanwhile the reapers remove the rows of as many old orders. Every
/// figure is per order. CPU time means little in a debug build or on a busy machine; buffers and WAL are counts.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Filled orders of each size, in ascending order. A million takes about 3 GB of disk space and some minutes.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10000,100000,1000000",
        value_name = "N,…"
    )]
    orders: Vec<u64>,
    /// Filled orders whose keys, processed messages and events are within their windows, at every size [default: half
    /// of the smallest size].
    #[arg(long, value_name = "N")]
    window: Option<u64>,
    /// New orders to measure at each size. As many old ones expire in that time.
    #[arg(long, default_value_t = 3_000, value_name = "N")]
    load: u64,
    /// Clients that send them. Each waits for its response.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Write the report as JSON, with `-` to standard output instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Kafka broker: `apache` or `embedded`.
    #[arg(long, default_value = "apache")]
    kafka: Kafka,
}

/// Measures every size and prints the report.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    args.check()?;
    let mut signals = StopSignals::listen()?;
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build; its CPU times mean little.");
    }
    let report = tokio::select! {
        report = measure(&args) => report?,
        _ = signals.next() => bail!("interrupted"),
    };
    let to_standard_output = args
        .json
        .as_ref()
        .is_some_and(|it| it.as_os_str() == STANDARD_OUTPUT);
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&report)? + "\n";
        if to_standard_output {
            print!("{json}");
        } else {
            let written = std::fs::write(path, json);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    match to_standard_output {
        true => eprint!("{}", print::text(&report)),
        false => print!("{}", print::text(&report)),
    }
    Ok(())
}

async fn measure(args: &Args) -> anyhow::Result<Report> {
    let (started_at, started) = (Utc::now(), std::time::Instant::now());
    let progress = Progress::new(false);
    let mut sizes: Vec<SizeResult> = Vec::new();
    let mut machine = None;
    for (number, orders) in args.orders.iter().enumerate() {
        let name = print::grouped(*orders);
        eprintln!("{} of {}: {name} orders", number + 1, args.orders.len());
        let measured = size::measure(args, *orders, &progress).await;
        let (of, mut size) = measured.with_context(|| format!("with {name} orders"))?;
        if let Some(smallest) = sizes.first() {
            size.compare_with(smallest);
        }
        sizes.push(size);
        machine = Some(of);
    }
    Ok(Report {
        machine: machine.context("no size was measured")?,
        retention: RETENTION.into(),
        clients: args.clients,
        sizes,
        command: args.command(),
        started_at,
        seconds: started.elapsed().as_secs_f64().round(),
    })
}

impl Args {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.orders.is_sorted_by(|a, b| a < b),
            "--orders must be in ascending order"
        );
        ensure!(
            self.load > 0 && self.clients > 0,
            "--load and --clients must be at least 1"
        );
        let needed = self.window() + self.load;
        ensure!(
            self.window() > 0 && self.smallest() >= needed,
            "the smallest of --orders must be at least --window and --load together ({needed}): the rows that expire \
             belong to orders before the window"
        );
        Ok(())
    }

    fn smallest(&self) -> u64 {
        self.orders.first().copied().unwrap_or_default()
    }

    fn window(&self) -> u64 {
        self.window.unwrap_or(self.smallest() / 2)
    }

    /// The command that repeats this run.
    fn command(&self) -> String {
        let sizes: Vec<String> = self.orders.iter().map(u64::to_string).collect();
        format!(
            "lab growth --orders {} --window {} --load {} --clients {}",
            sizes.join(","),
            self.window(),
            self.load,
            self.clients
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn parse(flags: &str) -> Args {
        Program::parse_from(std::iter::once("growth").chain(flags.split_whitespace())).args
    }

    #[test]
    fn default_sizes_leave_room_for_window_and_load() {
        let args = parse("");
        args.check().unwrap();
        assert_eq!(args.window(), 5_000);
    }

    #[test]
    fn sizes_without_room_or_order_are_rejected() {
        for flags in [
            "--orders 10000,1000 --load 10",
            "--orders 1000 --load 501",
            "--orders 1000 --window 900 --load 101",
            "--orders 1000 --window 0 --load 10",
            "--load 0",
        ] {
            parse(flags).check().unwrap_err();
        }
        assert_eq!(
            parse("--orders 1000,2000 --load 100").command(),
            "lab growth --orders 1000,2000 --window 500 --load 100 --clients 16"
        );
    }
}
