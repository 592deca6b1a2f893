//! Places orders for an experiment. The ids are chosen here, so that a fault can be armed for an order
//! before it is sent. Each order is sent until it is accepted, even while part of the system is down.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use reqwest::StatusCode;
use tokio::time::Instant;
use uuid::Uuid;

use endpoints::client::{self, order_body};
use endpoints::provider::{Fault, Faults};
use endpoints::{Endpoints, Service};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The reason in the audit log for what experiments change.
pub(super) const REASON: &str = "chaos experiment";
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Place orders, and print their ids.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of orders.
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// Spread them evenly over this time.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    over: u64,
    /// Have the provider hold the first charge of each order at this point.
    #[arg(long, value_enum)]
    hold: Option<Hold>,
    /// How long the provider holds it.
    #[arg(long, default_value_t = 8, value_name = "SECONDS")]
    hold_seconds: u64,
    /// Longest wait for an order to be accepted.
    #[arg(long, default_value_t = 90, value_name = "SECONDS")]
    patience: u64,
    /// API key to order with.
    #[arg(long, default_value = "demo-key-acme")]
    key: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Hold {
    /// The provider has the request and has not taken the money.
    BeforeMoney,
    /// The provider has taken the money and has not sent the response.
    AfterMoney,
}

pub(super) async fn run(args: Args, endpoints: &Endpoints) -> anyhow::Result<()> {
    let http = client::http(REQUEST_TIMEOUT)?;
    let pause = Duration::from_secs(args.over) / args.count.max(1);
    for _ in 0..args.count {
        let id = Uuid::now_v7();
        if let Some(hold) = args.hold {
            let fault = Fault {
                point: match hold {
                    Hold::BeforeMoney => "during_charge",
                    Hold::AfterMoney => "after_charge",
                },
                action: "delay",
                delay_ms: Some(args.hold_seconds * 1_000),
                times: Some(1),
                reference: Some(id.to_string()),
            };
            Faults::of(endpoints, REASON)?.arm(&fault).await?;
        }
        let url = format!("{}/orders/{id}", endpoints.url(Service::Order));
        let request = http
            .put(url)
            .bearer_auth(&args.key)
            .header("content-type", "application/json")
            .body(order_body(1));
        // Printed before the request: the script must know the order even if its acceptance is lost.
        println!("{id}");
        put(request, Duration::from_secs(args.patience)).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// Sends until the response is final. PUT is idempotent, so a repeat is harmless.
async fn put(request: reqwest::RequestBuilder, patience: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let request = request
            .try_clone()
            .context("the request cannot be repeated")?;
        let last = match request.send().await {
            Ok(response) if response.status().is_success() => return Ok(()),
            Ok(response) if is_final(response.status()) => {
                let status = response.status();
                bail!("PUT returned {status}: {}", response.text().await?)
            }
            Ok(response) => response.status().to_string(),
            Err(error) => error.to_string(),
        };
        if Instant::now() >= deadline {
            bail!(
                "the order was not accepted within {} s, last: {last}",
                patience.as_secs()
            );
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

fn is_final(status: StatusCode) -> bool {
    status.is_client_error()
        && !matches!(status, StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS)
}
