//! `lab bench`: measures the ratios of one run on one machine, and what an order costs.

mod against;
mod catch_up;
pub(crate) mod costs;
mod end_to_end;
mod html;
mod intake;
mod latency;
pub(crate) mod machine;
mod memory;
mod overload;
pub(crate) mod per_order;
mod price;
mod ratio;
mod relay;
pub(crate) mod report;
pub(crate) mod rig;
mod runner;
mod scale;
pub(crate) mod spread;
mod steps;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use endpoints::PerService;
use testkit::broker::Kafka;
use testkit::signals::StopSignals;
use testkit::system::Postgres;

use ratio::Ratio;
use report::Report;
use rig::{Place, Rig};
use scale::Scale;

/// Where `--json` writes for `-`.
const STANDARD_OUTPUT: &str = "-";

/// Measure the system relative to the limits of this machine, in one run.
///
/// Starts its own system. Each ratio is measured in pairs: the system and its limit, which alternate. Use a release
/// build on an idle machine (scripts/bench.sh). Exits with 1 if --against finds something worse.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Fewer and shorter pairs: about three minutes instead of ten.
    #[arg(long)]
    quick: bool,
    /// The smallest run that uses every part. Its figures mean nothing.
    #[arg(long, hide = true, conflicts_with = "quick")]
    smoke: bool,
    /// Measure only these: intake, relay, end_to_end, latency, price, catch_up.
    #[arg(long, value_delimiter = ',', value_name = "RATIO")]
    only: Vec<Ratio>,
    /// Write the report as JSON, with `-` to standard output instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one HTML page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Compare with an earlier report and say what became worse beyond the spread.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Directory of the services built with the feature `unprotected`, for `price` [default: the one that scripts/bench.sh
    /// fills, target/unprotected/release].
    #[arg(long, value_name = "DIR")]
    unprotected_binaries: Option<PathBuf>,
    /// Kafka broker: `apache` or `embedded`.
    #[arg(long, default_value = "apache")]
    kafka: Kafka,
}

/// Measures, prints and compares.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    // A baseline that cannot be read must not cost a whole run.
    let baseline = args.against.as_deref().map(Report::read).transpose()?;
    let unprotected = price::find(args.unprotected_binaries.as_deref());
    // The same for services that must be measured. If they need not, the report says that they are missing.
    if args.only.contains(&Ratio::Price) || args.unprotected_binaries.is_some() {
        unprotected.as_ref().map_err(|error| anyhow!("{error:#}"))?;
    }
    let mut signals = StopSignals::listen()?;
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build; its figures mean little. See scripts/bench.sh.");
    }
    let place = Place {
        kafka: args.kafka.clone(),
        postgres: Postgres::Private,
        prefix: String::new(),
        bin_dirs: PerService::default(),
        env: Vec::new(),
        quiet: false,
    };
    let rig = tokio::select! {
        started = Rig::start(place) => started?,
        _ = signals.next() => bail!("interrupted before the system was up"),
    };
    let measured = tokio::select! {
        measured = runner::measure(&rig, &args, &unprotected) => measured,
        _ = signals.next() => Err(anyhow!("interrupted")),
    };
    let stopped = rig.stop().await;
    let report = measured?;
    stopped?;
    publish(&args, &report)?;
    let Some(baseline) = baseline else {
        return Ok(ExitCode::SUCCESS);
    };
    let comparison = against::compare(&report, &baseline);
    args.print(&comparison.text());
    Ok(if comparison.worse.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn publish(args: &Args, report: &Report) -> anyhow::Result<()> {
    args.print(&table::text(report));
    if let Some(path) = &args.json {
        let json = serde_json::to_string(report)? + "\n";
        if path.as_os_str() == STANDARD_OUTPUT {
            print!("{json}");
        } else {
            write(path, &json)?;
        }
    }
    if let Some(path) = &args.html {
        write(path, &html::page(report))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

impl Args {
    fn scale(&self) -> Scale {
        if self.smoke {
            Scale::smoke()
        } else if self.quick {
            Scale::quick()
        } else {
            Scale::full()
        }
    }

    fn measures(&self, ratio: Ratio) -> bool {
        self.only.is_empty() || self.only.contains(&ratio)
    }

    /// The command that repeats this run.
    fn command(&self) -> String {
        let mut command = "scripts/bench.sh".to_owned();
        for (is_set, flag) in [(self.quick, " --quick"), (self.smoke, " --smoke")] {
            command += if is_set { flag } else { "" };
        }
        if !self.only.is_empty() {
            let names: Vec<&str> = self.only.iter().map(|ratio| ratio.name()).collect();
            command += &format!(" --only {}", names.join(","));
        }
        for (flag, path) in [
            ("--unprotected-binaries", &self.unprotected_binaries),
            ("--json", &self.json),
            ("--html", &self.html),
        ] {
            if let Some(path) = path {
                command += &format!(" {flag} {}", path.display());
            }
        }
        command
    }

    /// For people: standard output, unless the JSON goes there.
    fn print(&self, text: &str) {
        let json = self.json.as_deref();
        if json.is_some_and(|path| path.as_os_str() == STANDARD_OUTPUT) {
            eprint!("{text}");
        } else {
            print!("{text}");
        }
    }
}
