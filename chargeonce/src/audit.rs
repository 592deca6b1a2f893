//! `chargeonce audit`: what operators changed.

use anyhow::Context;
use endpoints::Service;
use reqwest::Method;
use serde_json::{Value, json};

use crate::operator::OperatorArgs;
use crate::system::parse_service;

/// List what operators changed: who, when, what and why.
///
/// Each service has its own append-only audit log. The list shows the latest changes of all services, newest
/// first.
///
/// Exits with 0 on success, with 1 if a service does not respond.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this service: order, payment, fulfilment, receipt or psp.
    #[arg(long, value_parser = parse_service)]
    service: Option<Service>,
    /// Number of changes to show.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let targets = args.operator.targets(&Service::ALL, args.service)?;
    let operator = args.operator.client()?;
    let mut rows = Vec::new();
    for (service, url) in targets {
        let url = format!("{url}/admin/audit?limit={}", args.limit);
        let page = operator.call(Method::GET, &url, None).await;
        let mut page = page.with_context(|| format!("{service} did not show its audit log"))?;
        let data = page["data"].as_array_mut().map(std::mem::take);
        for mut row in data.context("the response has no rows")? {
            row["service"] = json!(service.name());
            rows.push(row);
        }
    }
    let rows = newest_first(rows, args.limit as usize);
    match args.json {
        true => println!("{}", Value::from(rows)),
        false if rows.is_empty() => println!("no operator has changed anything"),
        false => rows.iter().for_each(|row| println!("{}", line(row))),
    }
    Ok(())
}

fn newest_first(mut rows: Vec<Value>, limit: usize) -> Vec<Value> {
    // RFC 3339 in UTC sorts as text.
    rows.sort_by_key(|row| std::cmp::Reverse(text(row, "at").to_owned()));
    rows.truncate(limit);
    rows
}

fn line(row: &Value) -> String {
    format!(
        "{}  {:<11}{:<16}{:<20}{}  {:?}",
        text(row, "at"),
        text(row, "service"),
        text(row, "operator"),
        text(row, "action"),
        text(row, "subject"),
        text(row, "reason"),
    )
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_changes_of_all_services_come_first() {
        let rows = [
            "2026-01-01T00:00:00Z",
            "2026-01-03T00:00:00Z",
            "2026-01-02T00:00:00Z",
        ];
        let rows = rows.map(|at| json!({ "at": at })).to_vec();
        let shown = newest_first(rows, 2);
        let days: Vec<&str> = shown.iter().map(|row| &text(row, "at")[8..10]).collect();
        assert_eq!(days, ["03", "02"]);
    }
}
