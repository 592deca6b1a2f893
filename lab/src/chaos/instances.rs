//! Steps that work on single processes of a service.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

use endpoints::{Endpoints, Service, client};

use super::place::REASON;

/// Long enough for a busy machine: a process that was just resumed answers late.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a service may take to become ready, after an earlier experiment.
const READY_MAX: Duration = Duration::from_secs(30);
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
    #[arg(long, default_value_t = 60)]
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
    let deadline = Instant::now() + READY_MAX;
    for service in Service::ALL {
        let url = format!("{}/readyz", endpoints.url(service));
        while let Err(error) = get(&http, &url).await {
            if Instant::now() >= deadline {
                return Err(error.context(format!("{service} is not ready")));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

pub(super) async fn caller(args: Caller) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    loop {
        let found = first_caller(&args.urls).await;
        let late = Instant::now() >= deadline;
        match (found, args.none) {
            (Ok(Some(url)), false) => {
                println!("{url}");
                return Ok(());
            }
            (Ok(None), true) => return Ok(()),
            (Ok(Some(url)), true) if late => {
                bail!("{url} still has a call to the provider in flight")
            }
            (Ok(None), false) if late => {
                bail!("no replica of payment has a call to the provider in flight")
            }
            // A replica that does not answer counts as "not yet".
            (Err(error), _) if late => return Err(error),
            _ => {}
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The text of a successful response.
async fn get(http: &reqwest::Client, url: &str) -> anyhow::Result<String> {
    let response = http.get(url).send().await;
    let response = response.and_then(reqwest::Response::error_for_status);
    let text = response.with_context(|| format!("GET {url}"))?.text().await;
    text.with_context(|| format!("GET {url}"))
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
    let metrics = get(&client::http(REQUEST_TIMEOUT)?, &format!("{url}/metrics")).await?;
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
