//! Orders to experiment with. Their ids are chosen here, so that a fault can wait for one of them, and
//! each is put until it is accepted, whatever is down meanwhile.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use reqwest::StatusCode;
use tokio::time::Instant;
use uuid::Uuid;

use endpoints::Endpoints;
use endpoints::Service;
use endpoints::client::{self, order_body};
use endpoints::provider::{self, Fault};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Place orders, and print their ids.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many.
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// Spread over this time.
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    over: u64,
    /// Where the provider holds the first charge of each order.
    #[arg(long, value_enum)]
    hold: Option<Hold>,
    /// For how long.
    #[arg(long, default_value_t = 8, value_name = "SECONDS")]
    hold_seconds: u64,
    /// Longest wait for an order to be accepted.
    #[arg(long, default_value_t = 90, value_name = "SECONDS")]
    patience: u64,
    /// The API key to order with.
    #[arg(long, default_value = "demo-key-acme")]
    key: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Hold {
    /// The provider has the request and has not taken the money.
    BeforeMoney,
    /// The money is taken, and the answer is not sent.
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
            provider::arm_fault(endpoints.url(Service::Psp), &fault).await?;
        }
        let url = format!("{}/orders/{id}", endpoints.url(Service::Order));
        let request = http
            .put(url)
            .bearer_auth(&args.key)
            .header("content-type", "application/json")
            .body(order_body(1));
        // First, so that the caller knows of an order whose acceptance it may not live to see.
        println!("{id}");
        put(request, Duration::from_secs(args.patience)).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// Sends until the answer is final: putting an order twice is putting it once.
async fn put(request: reqwest::RequestBuilder, patience: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let request = request.try_clone().context("the request has no stream")?;
        let last = match request.send().await {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            Ok(answer) if is_final(answer.status()) => {
                bail!("PUT answered {}: {}", answer.status(), answer.text().await?)
            }
            Ok(answer) => answer.status().to_string(),
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
