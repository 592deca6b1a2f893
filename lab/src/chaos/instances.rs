//! Steps that work on single processes of a service.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use endpoints::{Endpoints, Service, client};

use super::place::REASON;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Payment's gauge of calls to the provider that are in flight.
const IN_FLIGHT_GAUGE: &str = "charges_in_flight";

/// Print the URL of the payment replica that has a call to the provider in flight.
#[derive(Debug, clap::Args)]
pub(super) struct Caller {
    /// Base URLs of payment's replicas.
    #[arg(required = true)]
    urls: Vec<String>,
    /// Wait until none of them has a call in flight instead, and print nothing.
    #[arg(long)]
    none: bool,
    /// Longest wait.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Arm a crash point of one process. The process dies, or pauses, when it next reaches the point.
#[derive(Debug, clap::Args)]
pub(super) struct Arm {
    /// Base URL of the process's operator listener.
    url: String,
    /// Name of the crash point, as in ARCHITECTURE.md.
    point: String,
    /// Pause the process there instead of killing it.
    #[arg(long)]
    pause: bool,
}

/// Print process id, base URL and operator URL of each process of a service that `lab up` runs.
#[derive(Debug, clap::Args)]
pub(super) struct Instances {
    /// A service, `postgres` or `kafka`.
    name: String,
}

/// Disarm all crash points of a process.
#[derive(Debug, clap::Args)]
pub(super) struct Disarm {
    /// Base URL of the process's operator listener.
    url: String,
}

pub(super) async fn ready(endpoints: &Endpoints) -> anyhow::Result<()> {
    let http = client::http(REQUEST_TIMEOUT)?;
    for service in Service::ALL {
        let url = format!("{}/readyz", endpoints.url(service));
        let response = http.get(url).send().await;
        response
            .and_then(reqwest::Response::error_for_status)
            .with_context(|| format!("{service} is not ready"))?;
    }
    Ok(())
}

pub(super) async fn caller(args: Caller) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    loop {
        match (first_caller(&args.urls).await?, args.none) {
            (Some(url), false) => {
                println!("{url}");
                return Ok(());
            }
            (None, true) => return Ok(()),
            (Some(url), true) if Instant::now() >= deadline => {
                bail!("{url} still has a call to the provider in flight")
            }
            (None, false) if Instant::now() >= deadline => {
                bail!("no replica of payment has a call to the provider in flight")
            }
            _ => {}
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn first_caller(urls: &[String]) -> anyhow::Result<Option<&str>> {
    for url in urls {
        if calls_in_flight(url).await? > 0.0 {
            return Ok(Some(url));
        }
    }
    Ok(None)
}

async fn calls_in_flight(url: &str) -> anyhow::Result<f64> {
    let metrics = client::http(REQUEST_TIMEOUT)?
        .get(format!("{url}/metrics"))
        .send()
        .await
        .and_then(reqwest::Response::error_for_status)
        .with_context(|| format!("GET {url}/metrics"))?
        .text()
        .await?;
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(IN_FLIGHT_GAUGE)?.trim().parse().ok());
    // A process that has made no call yet has no such line.
    Ok(value.unwrap_or_default())
}

pub(super) async fn arm(args: Arm, endpoints: &Endpoints) -> anyhow::Result<()> {
    let action = if args.pause { "pause" } else { "kill" };
    let body = json!({ "name": args.point, "action": action });
    let operator = endpoints.operator(REASON, REQUEST_TIMEOUT)?;
    let request = operator.request(Method::POST, &crash_points(&args.url));
    send(request.json(&body)).await
}

pub(super) async fn disarm(args: Disarm, endpoints: &Endpoints) -> anyhow::Result<()> {
    let operator = endpoints.operator(REASON, REQUEST_TIMEOUT)?;
    send(operator.request(Method::DELETE, &crash_points(&args.url))).await
}

fn crash_points(operator_url: &str) -> String {
    format!("{operator_url}/admin/crash-points")
}

async fn send(request: reqwest::RequestBuilder) -> anyhow::Result<()> {
    let response = request.send().await?;
    let status = response.status();
    if status == reqwest::StatusCode::NOT_FOUND {
        bail!(
            "the service was built without crash points: build it with the feature `crash-points`"
        );
    }
    let text = response.text().await.context("reading the response")?;
    ensure!(
        status.is_success(),
        "setting crash points returned {status}: {text}"
    );
    Ok(())
}

pub(super) fn list(args: Instances, endpoints: &Endpoints) -> anyhow::Result<()> {
    let name = &args.name;
    let is_replica = |process: &str| {
        let number = process.strip_prefix(name.as_str());
        number.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let service = Service::ALL.into_iter().find(|it| it.name() == name);
    let mut urls = service.into_iter().flat_map(|it| {
        let operator_urls = endpoints.operator_urls.get(it);
        endpoints.urls.get(it).iter().zip(operator_urls)
    });
    let mut processes: Vec<_> = endpoints
        .pids
        .iter()
        .filter(|(it, _)| is_replica(it))
        .collect();
    // In the order of the URLs: `payment`, `payment-2`, …, `payment-10`.
    processes.sort_by_key(|(it, _)| (it.len(), *it));
    for (_, pid) in processes {
        match urls.next() {
            Some((url, operator_url)) => println!("{pid} {url} {operator_url}"),
            None => println!("{pid}"),
        }
    }
    Ok(())
}
