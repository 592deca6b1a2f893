//! `chargeonce reconcile`: has the provider's books held against the payment table, and shows the report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

use endpoints::Endpoints;
use endpoints::Service;

/// A sweep over all books of a laptop takes seconds; this is for a hung one.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(600);
/// The exit code when the books differ and something is left for a person to look at.
const FLAGGED: u8 = 2;

/// Compare the provider's books with the payment table, mend what can be mended, and report.
///
/// Exits with 2 if something was flagged that a person has to look at.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The payment service's base URL [default: the system that `lab up` runs here].
    #[arg(long)]
    url: Option<String>,
    /// The whole of the books, however old, instead of the last days.
    #[arg(long)]
    all: bool,
    /// Show the latest reports instead of making a new one.
    #[arg(long)]
    list: bool,
    /// As JSON, for programs.
    #[arg(long)]
    json: bool,
    /// Where a running `lab up` keeps its state.
    #[arg(long)]
    state_dir: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Report {
    id: i64,
    started_at: String,
    finished_at: Option<String>,
    charges: i64,
    attempts: i64,
    recent: i64,
    settled: i64,
    refunds_settled: i64,
    refunds_opened: i64,
    differing: i64,
    differences: Vec<Difference>,
}

#[derive(Debug, Deserialize)]
struct Difference {
    kind: String,
    charge_id: String,
    reference: String,
    detail: String,
    action: String,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let url = match &args.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => {
            let state_dir = args.state_dir.clone();
            let state_dir = state_dir.unwrap_or_else(Endpoints::default_state_dir);
            Endpoints::load(&state_dir)?
                .url(Service::Payment)
                .to_owned()
        }
    };
    let reports = format!("{url}/admin/reconciliations");
    let http = reqwest::Client::builder().timeout(SWEEP_TIMEOUT).build()?;
    if args.list {
        let answer = ask(http.get(&reports)).await?;
        return show_list(answer, args.json);
    }
    let sweep = http.post(&reports).query(&[("all", args.all)]);
    if !args.json {
        eprintln!("Comparing the books …");
    }
    let answer = ask(sweep).await?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    }
    let report: Report = serde_json::from_value(answer).context("the report makes no sense")?;
    if !args.json {
        show(&report);
    }
    let flagged = report.differences.iter().any(|it| it.action == "flagged");
    Ok(match flagged {
        true => ExitCode::from(FLAGGED),
        false => ExitCode::SUCCESS,
    })
}

async fn ask(request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
    let answer = request.send().await.context("asking the payment service")?;
    let status = answer.status();
    let text = answer.text().await.unwrap_or_default();
    if !status.is_success() {
        bail!("the payment service answered {status}: {text}");
    }
    serde_json::from_str(&text).context("the answer is not JSON")
}

fn show(report: &Report) {
    println!("\nReport {} of {}", report.id, report.started_at);
    for (what, count) in [
        ("charges in the provider's books", report.charges),
        ("captured attempts looked for in them", report.attempts),
        ("too recent to judge", report.recent),
        ("unknown outcomes settled", report.settled),
        ("refunds settled", report.refunds_settled),
        ("refunds opened for orphan charges", report.refunds_opened),
        ("differences", report.differing),
    ] {
        println!("  {count:>9}  {what}");
    }
    if report.differences.is_empty() {
        println!("\nBoth books say the same.");
        return;
    }
    println!(
        "\n  {:<20} {:<14} {:<36}  {:<36}  DETAIL",
        "DIFFERENCE", "DONE", "REFERENCE", "CHARGE"
    );
    for it in &report.differences {
        println!(
            "  {:<20} {:<14} {:<36}  {:<36}  {}",
            it.kind, it.action, it.reference, it.charge_id, it.detail
        );
    }
}

fn show_list(answer: Value, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    let reports = answer.get("data").cloned().unwrap_or_default();
    let reports: Vec<Report> = serde_json::from_value(reports).context("reading the reports")?;
    println!(
        "  {:>6}  {:<32} {:<12} {:>9} {:>9} {:>9} {:>9}",
        "REPORT", "STARTED", "STATE", "CHARGES", "SETTLED", "REFUNDED", "DIFFERING"
    );
    for report in reports {
        let state = report.finished_at.map_or("interrupted", |_| "finished");
        println!(
            "  {:>6}  {:<32} {:<12} {:>9} {:>9} {:>9} {:>9}",
            report.id,
            report.started_at,
            state,
            report.charges,
            report.settled,
            report.refunds_opened,
            report.differing
        );
    }
    Ok(ExitCode::SUCCESS)
}
