//! `chargeonce reconcile`: compares the provider's ledger with the payment table and prints the
//! report.

use std::process::ExitCode;

use anyhow::Context;
use endpoints::Service;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::operator::ChangeArgs;

/// The exit code when a difference needs an operator.
const FLAGGED: u8 = 2;

/// Compare the provider's books with the payment table, repair what can be repaired, and report.
///
/// The payment service does this on a schedule. Run it manually after an outage of the provider, or
/// when the outcome of a charge is unknown. It settles unknown outcomes, and opens a refund for each
/// orphan charge: a charge that contradicts an attempt we know. It only flags other differences, such as
/// a charge that no attempt explains; settle those with `chargeonce resolve`.
///
/// Exits with 0 if nothing is left to do, with 1 if it failed, and with 2 if a difference
/// was flagged for an operator.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compare the whole ledger instead of what is new.
    #[arg(long)]
    all: bool,
    /// Print the latest reports instead of running a new reconciliation.
    #[arg(long)]
    list: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    change: ChangeArgs,
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
    let url = args.change.operator.url_of(Service::Payment)?;
    let reports = format!("{url}/admin/reconciliations");
    if args.list {
        let operator = args.change.operator.client()?;
        let list = operator.call(Method::GET, &reports, None).await?;
        print_list(list, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let operator = args.change.client()?;
    if !args.json {
        eprintln!("Comparing the books …");
    }
    let url = format!("{reports}?all={}", args.all);
    let json = operator.call(Method::POST, &url, None).await?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&json)?);
    }
    let report: Report = serde_json::from_value(json).context("reading the report")?;
    if !args.json {
        print(&report);
    }
    let flagged = report.differences.iter().any(|it| it.action == "flagged");
    Ok(match flagged {
        true => ExitCode::from(FLAGGED),
        false => ExitCode::SUCCESS,
    })
}

fn print(report: &Report) {
    println!("\nReport {} of {}", report.id, report.started_at);
    for (what, count) in [
        ("charges in the provider's books", report.charges),
        ("captured attempts compared with them", report.attempts),
        ("too recent to judge", report.recent),
        ("unknown outcomes settled", report.settled),
        ("refunds settled", report.refunds_settled),
        ("refunds opened for orphan charges", report.refunds_opened),
        ("differences", report.differing),
    ] {
        println!("  {count:>9}  {what}");
    }
    if report.differences.is_empty() {
        println!("\nThe provider's books and the payment table agree.");
        return;
    }
    println!(
        "\n  {:<20} {:<14} {:<36}  {:<36}  DETAIL",
        "DIFFERENCE", "ACTION", "REFERENCE", "CHARGE"
    );
    for it in &report.differences {
        println!(
            "  {:<20} {:<14} {:<36}  {:<36}  {}",
            it.kind, it.action, it.reference, it.charge_id, it.detail
        );
    }
}

fn print_list(list: Value, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(&list)?);
        return Ok(());
    }
    let reports = list.get("data").cloned().unwrap_or_default();
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
    Ok(())
}
