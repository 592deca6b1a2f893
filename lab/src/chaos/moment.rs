//! The moments of an order's life that a script waits for, each told by the tables and books of who
//! is at work, never by a log.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use sqlx::PgPool;
use tokio::time::Instant;
use uuid::Uuid;

use crate::client::psp;
use crate::service::Service;
use crate::system::Endpoints;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Wait for a moment in the life of orders, and print the evidence.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_enum)]
    moment: Moment,
    /// Every one of them must have come there; for `open`, at least one.
    #[arg(required = true)]
    orders: Vec<Uuid>,
    /// Longest wait; with 0, the moment must be now.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Moment {
    /// The provider is at the charge, and has not taken the money.
    InFlight,
    /// The money is taken, and payment does not know.
    ChargedUnrecorded,
    /// The order's event is published, and its outbox still says that it is not.
    PublishedUnmarked,
    /// A second charger has taken the attempt up.
    TakenOver,
    /// Something is still to be done for it.
    Open,
}

pub(super) async fn run(args: Args, endpoints: &Endpoints) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let mut last = String::new();
    loop {
        match look(&args, endpoints).await {
            Ok(Look::There(evidence)) => {
                println!("{evidence}");
                return Ok(());
            }
            Ok(Look::NotThere(evidence)) => last = evidence,
            // A store that is away is waited for as well.
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            bail!("not so: {last}");
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// What was seen, and whether it is the moment.
enum Look {
    There(String),
    NotThere(String),
}

async fn look(args: &Args, endpoints: &Endpoints) -> anyhow::Result<Look> {
    let mut not_there = None;
    let mut there = None;
    for order in &args.orders {
        let (is_there, evidence) = match args.moment {
            Moment::InFlight => in_flight(endpoints, *order).await?,
            Moment::ChargedUnrecorded => charged_unrecorded(endpoints, *order).await?,
            Moment::PublishedUnmarked => published_unmarked(endpoints, *order).await?,
            Moment::TakenOver => taken_over(endpoints, *order).await?,
            Moment::Open => open(endpoints, *order).await?,
        };
        match is_there {
            true => there = Some(evidence),
            false => not_there = Some(evidence),
        }
    }
    Ok(match (args.moment, there, not_there) {
        (Moment::Open, Some(evidence), _) | (_, Some(evidence), None) => Look::There(evidence),
        (_, _, evidence) => Look::NotThere(evidence.unwrap_or_default()),
    })
}

async fn in_flight(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let key = format!("pay:{order}:1");
    let answer = reqwest::Client::new()
        .get(format!("{}/v1/charges", endpoints.url(Service::Psp)))
        .query(&[("key", &key)])
        .timeout(ASK_TIMEOUT)
        .send()
        .await
        .context("asking the provider for the key")?;
    let status = answer.status();
    let evidence = format!("GET /v1/charges?key={key} at the provider answers {status}");
    Ok((status == reqwest::StatusCode::CONFLICT, evidence))
}

async fn charged_unrecorded(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let books = psp::connect(endpoints.database_url(Service::Psp)).await?;
    let counts = psp::charges_per_order(&books, &[order]).await?;
    let charges = counts.get(&order).copied().unwrap_or_default();
    let (status, tries) = attempt(endpoints, order).await?;
    let evidence = format!(
        "count(*) in the provider's books: {charges}; payment's own table: {status}, tries {tries}"
    );
    let is_open = matches!(status.as_str(), "pending" | "unknown");
    Ok((charges > 0 && is_open, evidence))
}

async fn published_unmarked(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let (status, _) = attempt(endpoints, order).await?;
    let orders = psp::connect(endpoints.database_url(Service::Order)).await?;
    let unmarked: i64 = sqlx::query_scalar(
        "select count(*) from outbox where subject = $1 and published_at is null",
    )
    .bind(order)
    .fetch_one(&orders)
    .await
    .context("reading order's outbox")?;
    let evidence = format!(
        "payment has the event (attempt {status}); unpublished in order's outbox: {unmarked}"
    );
    Ok((status != NO_ATTEMPT && unmarked > 0, evidence))
}

async fn taken_over(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let (status, tries) = attempt(endpoints, order).await?;
    Ok((
        tries >= 2,
        format!("payment's own table: {status}, tries {tries}"),
    ))
}

async fn open(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let orders = psp::connect(endpoints.database_url(Service::Order)).await?;
    let status: Option<String> = sqlx::query_scalar("select status from orders where id = $1")
        .bind(order)
        .fetch_optional(&orders)
        .await
        .context("reading the order's status")?;
    let status = status.unwrap_or_else(|| "not there".to_owned());
    let is_open = matches!(status.as_str(), "placed" | "paid");
    Ok((is_open, format!("order {order} is {status}")))
}

const NO_ATTEMPT: &str = "none";

/// Status and tries of the order's first attempt.
async fn attempt(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(String, i32)> {
    let payments: PgPool = psp::connect(endpoints.database_url(Service::Payment)).await?;
    let row: Option<(String, i32)> =
        sqlx::query_as("select status, tries from payments where order_id = $1 and attempt = 1")
            .bind(order)
            .fetch_optional(&payments)
            .await
            .context("reading payment's table")?;
    Ok(row.unwrap_or_else(|| (NO_ATTEMPT.to_owned(), 0)))
}
