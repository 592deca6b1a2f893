//! `chargeonce republish`: after the broker has lost its data, every service sends its events again.

use std::path::PathBuf;

use anyhow::{Context, bail};
use chrono::{DateTime, TimeDelta, Utc};
use reqwest::Method;
use serde_json::json;

use crate::operator::{Operator, PUBLISHERS, parse_service};
use endpoints::Endpoints;
use endpoints::Service;

/// Has the services of a running system publish their recent events again.
///
/// For a broker that lost its data. Events keep their ids, so whoever has processed one passes it
/// over, and a repeat is harmless. Run it once the broker is back and the topic exists; consumers that
/// were not restarted may need a second run if they had read further than the new topic reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How far back: 90s, 30m, 1h, 7d, or a time such as 2026-01-31T12:00:00Z. Events are kept for
    /// 7 days unless the services were told otherwise.
    #[arg(long, value_parser = parse_since)]
    since: Since,
    /// Only this service: order, payment or fulfilment.
    #[arg(long, value_parser = parse_service)]
    service: Option<Service>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Where a running `lab up` keeps its state.
    #[arg(long, value_name = "DIR", default_value_os_t = Endpoints::default_state_dir())]
    state_dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Ago(TimeDelta),
    At(DateTime<Utc>),
}

/// Asks each service in turn and reports how many events each sends again.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let endpoints = Endpoints::load(&args.state_dir)?;
    let operator = Operator::new()?;
    let since = match args.since {
        Since::Ago(delta) => Utc::now() - delta,
        Since::At(time) => time,
    };
    let mut counts = serde_json::Map::new();
    for service in PUBLISHERS {
        if args.service.is_some_and(|only| only != service) {
            continue;
        }
        let url = format!("{}/admin/outbox/republish", endpoints.url(service));
        let body = json!({ "since": since.to_rfc3339() });
        let answer = operator.ask(Method::POST, &url, Some(&body)).await;
        let answer = answer.with_context(|| format!("{service} does not republish"))?;
        let Some(count) = answer["republished"].as_u64() else {
            bail!("{service} did not say how many events it sends again: {answer}");
        };
        if !args.json {
            println!("{:<11}{count:>10} events are sent again", service.name());
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
    let wrong = || "expected 90s, 30m, 1h, 7d or a time such as 2026-01-31T12:00:00Z".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: i64 = text[..text.len() - unit.len_utf8()]
        .parse()
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(seconds).ok_or_else(wrong)?;
    TimeDelta::try_seconds(seconds)
        .filter(|delta| Utc::now().checked_sub_signed(*delta).is_some())
        .map(Since::Ago)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_span_or_a_time() {
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
