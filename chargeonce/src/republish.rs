//! `chargeonce republish`: every service publishes its recent events again.

use anyhow::{Context, bail};
use chrono::{DateTime, TimeDelta, Utc};
use endpoints::Service;
use reqwest::Method;
use serde_json::json;

use crate::operator::ChangeArgs;
use crate::system::{PUBLISHERS, parse_publisher};

/// Publish recent events of the services again, after Kafka lost its data.
///
/// Services notice lost events and publish them again automatically. Use this command if they cannot notice the
/// loss, for example after you restored a broker from an old copy. Events keep their ids, so a consumer skips
/// what it has processed, and running the command twice is harmless. While it runs, new events wait behind the
/// old ones.
///
/// Exits with 0 if every service accepted the request, with 1 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How far back: 90s, 30m, 1h, 7d, or a time such as 2026-01-31T12:00:00Z. Services keep
    /// published events for 7 days by default.
    #[arg(long, value_parser = parse_since)]
    since: Since,
    /// Only this service: order, payment or fulfilment.
    #[arg(long, value_parser = parse_publisher)]
    service: Option<Service>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Ago(TimeDelta),
    At(DateTime<Utc>),
}

/// Calls each service in turn and prints how many events it publishes again.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let targets = args.change.operator.targets(&PUBLISHERS, args.service)?;
    let operator = args.change.client()?;
    let since = match args.since {
        Since::Ago(delta) => Utc::now() - delta,
        Since::At(time) => time,
    };
    let mut counts = serde_json::Map::new();
    for (service, url) in targets {
        let url = format!("{url}/admin/outbox/republish");
        let body = json!({ "since": since.to_rfc3339() });
        let result = operator.call(Method::POST, &url, Some(&body)).await;
        let result = result.with_context(|| format!("{service} did not republish"))?;
        let Some(count) = result["republished"].as_u64() else {
            bail!("{service} did not return a number of events: {result}");
        };
        if !args.json {
            println!(
                "{:<11}{count:>10} events will be published again",
                service.name()
            );
        }
        counts.insert(service.name().to_owned(), count.into());
    }
    if args.json {
        println!(
            "{}",
            json!({ "since": since.to_rfc3339(), "republished": counts })
        );
    }
    Ok(())
}

fn parse_since(text: &str) -> Result<Since, String> {
    if let Ok(time) = text.parse::<DateTime<Utc>>() {
        return Ok(Since::At(time));
    }
    let invalid = || "expected 90s, 30m, 1h, 7d or a time such as 2026-01-31T12:00:00Z".to_owned();
    let unit = text.chars().last().ok_or_else(invalid)?;
    let number: i64 = text[..text.len() - unit.len_utf8()]
        .parse()
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(invalid)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(invalid()),
    };
    let seconds = number.checked_mul(seconds).ok_or_else(invalid)?;
    TimeDelta::try_seconds(seconds)
        .filter(|delta| Utc::now().checked_sub_signed(*delta).is_some())
        .map(Since::Ago)
        .ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_duration_or_a_time() {
        assert_eq!(parse_since("1h"), Ok(Since::Ago(TimeDelta::hours(1))));
        assert_eq!(parse_since("7d"), Ok(Since::Ago(TimeDelta::days(7))));
        let time = parse_since("2026-01-31T12:00:00Z");
        assert!(matches!(time, Ok(Since::At(_))));
        let endless = format!("{}d", i64::MAX / 86_400);
        for nonsense in [
            "",
            "h",
            "1",
            "-1h",
            "1w",
            "1.5h",
            "yesterday",
            "1é",
            &endless,
        ] {
            assert!(parse_since(nonsense).is_err(), "{nonsense}");
        }
    }
}
