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
    /// Every one of them must have come there.
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
    /// A second charger has taken the attempt up.
    TakenOver,
    /// The capture was written and announced, and nobody did either again.
    RecordedOnce,
    /// The order is accepted, and its event is not published.
    Unpublished,
    /// The order's event is published, and its outbox still says that it is not.
    PublishedUnmarked,
    /// The capture is announced, and nothing has shipped.
    Paid,
    /// As `paid`, and fulfilment stands still in the transaction that would ship it.
    HandledUncommitted,
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
    let mut last = String::new();
    for order in &args.orders {
        let (is_there, evidence) = match args.moment {
            Moment::InFlight => in_flight(endpoints, *order).await?,
            Moment::ChargedUnrecorded => charged_unrecorded(endpoints, *order).await?,
            Moment::TakenOver => taken_over(endpoints, *order).await?,
            Moment::RecordedOnce => recorded_once(endpoints, *order).await?,
            Moment::Unpublished => unpublished(endpoints, *order, false).await?,
            Moment::PublishedUnmarked => unpublished(endpoints, *order, true).await?,
            Moment::Paid => paid(endpoints, *order).await?,
            Moment::HandledUncommitted => handled_uncommitted(endpoints, *order).await?,
        };
        if !is_there {
            return Ok(Look::NotThere(evidence));
        }
        last = evidence;
    }
    Ok(Look::There(last))
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

/// Unpublished by order's own word; `heard` tells whether payment has the event all the same.
async fn unpublished(
    endpoints: &Endpoints,
    order: Uuid,
    heard: bool,
) -> anyhow::Result<(bool, String)> {
    let (status, _) = attempt(endpoints, order).await?;
    let query = "select count(*) from outbox where subject = $1 and published_at is null";
    let unmarked = count(endpoints, Service::Order, query, order).await?;
    let evidence =
        format!("unpublished in order's outbox: {unmarked}; payment's attempt: {status}");
    Ok((unmarked > 0 && heard == (status != NO_ATTEMPT), evidence))
}

async fn taken_over(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let (status, tries) = attempt(endpoints, order).await?;
    Ok((
        tries >= 2,
        format!("payment's own table: {status}, tries {tries}"),
    ))
}

async fn recorded_once(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let (status, tries) = attempt(endpoints, order).await?;
    let query =
        "select count(*) from outbox where subject = $1 and event_type = 'payment.captured'";
    let announced = count(endpoints, Service::Payment, query, order).await?;
    let evidence = format!(
        "payment's own table: {status}, tries {tries}; payment.captured in its outbox: {announced}"
    );
    Ok((status == "captured" && announced == 1, evidence))
}

async fn paid(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let orders = psp::connect(endpoints.database_url(Service::Order)).await?;
    let status: Option<String> = sqlx::query_scalar("select status from orders where id = $1")
        .bind(order)
        .fetch_optional(&orders)
        .await
        .context("reading the order's status")?;
    let status = status.unwrap_or_else(|| "not there".to_owned());
    Ok((status == "paid", format!("order {order} is {status}")))
}

async fn handled_uncommitted(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<(bool, String)> {
    let (is_paid, status) = paid(endpoints, order).await?;
    // No transaction of a process that runs is idle for so long.
    let query = "select count(*) from pg_stat_activity
                 where datname = current_database() and state = 'idle in transaction'
                   and state_change < now() - interval '500 ms'
                   and not exists (select from shipments where order_id = $1)";
    let idle = count(endpoints, Service::Fulfilment, query, order).await?;
    let evidence = format!("{status}; transactions of fulfilment that stand still: {idle}");
    Ok((is_paid && idle > 0, evidence))
}

/// Counts by a query about one order.
async fn count(
    endpoints: &Endpoints,
    service: Service,
    query: &'static str,
    order: Uuid,
) -> anyhow::Result<i64> {
    let pool = psp::connect(endpoints.database_url(service)).await?;
    let counted = sqlx::query_scalar(query).bind(order).fetch_one(&pool).await;
    counted.with_context(|| format!("counting: {query}"))
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
