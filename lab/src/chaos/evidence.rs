//! What the tables and books say of one order.

use std::time::Duration;

use anyhow::Context;
use sqlx::PgPool;
use uuid::Uuid;

use endpoints::Endpoints;
use endpoints::Service;
use endpoints::{client, provider};
use invariants::Databases;

const ASK_TIMEOUT: Duration = Duration::from_secs(5);
const NO_ATTEMPT: &str = "none";

/// What was seen, and whether it is the moment.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) is_there: bool,
    pub(super) text: String,
}

impl Evidence {
    fn new(is_there: bool, text: String) -> Self {
        Evidence { is_there, text }
    }
}

pub(super) async fn in_flight(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<Evidence> {
    let key = format!("pay:{order}:1");
    let answer = client::http(ASK_TIMEOUT)?
        .get(format!("{}/v1/charges", endpoints.url(Service::Psp)))
        .query(&[("key", &key)])
        .send()
        .await
        .context("asking the provider for the key")?;
    let status = answer.status();
    Ok(Evidence::new(
        status == reqwest::StatusCode::CONFLICT,
        format!("GET /v1/charges?key={key} at the provider answers {status}"),
    ))
}

pub(super) async fn charged_unrecorded(
    databases: &Databases,
    order: Uuid,
) -> anyhow::Result<Evidence> {
    let counts = provider::charges_per_order(&databases.psp, &[order]).await?;
    let charges = counts.get(&order).copied().unwrap_or_default();
    let (status, tries) = attempt(databases, order).await?;
    let evidence = format!(
        "count(*) in the provider's books: {charges}; payment's own table: {status}, tries {tries}"
    );
    let is_open = matches!(status.as_str(), "pending" | "unknown");
    Ok(Evidence::new(charges > 0 && is_open, evidence))
}

/// Unpublished by order's own word; `heard` tells whether payment has the event all the same.
pub(super) async fn unpublished(
    databases: &Databases,
    order: Uuid,
    heard: bool,
) -> anyhow::Result<Evidence> {
    let (status, _) = attempt(databases, order).await?;
    let query = "select count(*) from outbox where subject = $1 and published_at is null";
    let unmarked = count(&databases.order, query, order).await?;
    let evidence =
        format!("unpublished in order's outbox: {unmarked}; payment's attempt: {status}");
    let is_heard = status != NO_ATTEMPT;
    Ok(Evidence::new(unmarked > 0 && heard == is_heard, evidence))
}

pub(super) async fn taken_over(databases: &Databases, order: Uuid) -> anyhow::Result<Evidence> {
    let (status, tries) = attempt(databases, order).await?;
    let evidence = format!("payment's own table: {status}, tries {tries}");
    Ok(Evidence::new(tries >= 2, evidence))
}

pub(super) async fn recorded_once(databases: &Databases, order: Uuid) -> anyhow::Result<Evidence> {
    let (status, tries) = attempt(databases, order).await?;
    let query =
        "select count(*) from outbox where subject = $1 and event_type = 'payment.captured'";
    let announced = count(&databases.payment, query, order).await?;
    let evidence = format!(
        "payment's own table: {status}, tries {tries}; payment.captured in its outbox: {announced}"
    );
    let is_once = status == "captured" && announced == 1;
    Ok(Evidence::new(is_once, evidence))
}

pub(super) async fn paid(databases: &Databases, order: Uuid) -> anyhow::Result<Evidence> {
    let status: Option<String> = sqlx::query_scalar("select status from orders where id = $1")
        .bind(order)
        .fetch_optional(&databases.order)
        .await
        .context("reading the order's status")?;
    let status = status.unwrap_or_else(|| "not there".to_owned());
    let evidence = format!("order {order} is {status}");
    Ok(Evidence::new(status == "paid", evidence))
}

pub(super) async fn handled_uncommitted(
    databases: &Databases,
    order: Uuid,
) -> anyhow::Result<Evidence> {
    let paid = paid(databases, order).await?;
    // No transaction of a process that runs is idle for so long.
    let query = "select count(*) from pg_stat_activity
                 where datname = current_database() and state = 'idle in transaction'
                   and state_change < now() - interval '500 ms'
                   and not exists (select from shipments where order_id = $1)";
    let idle = count(&databases.fulfilment, query, order).await?;
    let evidence = format!(
        "{}; transactions of fulfilment that stand still: {idle}",
        paid.text
    );
    Ok(Evidence::new(paid.is_there && idle > 0, evidence))
}

/// Counts by a query about one order.
async fn count(pool: &PgPool, query: &'static str, order: Uuid) -> anyhow::Result<i64> {
    let counted = sqlx::query_scalar(query).bind(order).fetch_one(pool).await;
    counted.with_context(|| format!("counting: {query}"))
}

/// Status and tries of the order's first attempt.
async fn attempt(databases: &Databases, order: Uuid) -> anyhow::Result<(String, i32)> {
    let row: Option<(String, i32)> =
        sqlx::query_as("select status, tries from payments where order_id = $1 and attempt = 1")
            .bind(order)
            .fetch_optional(&databases.payment)
            .await
            .context("reading payment's table")?;
    Ok(row.unwrap_or_else(|| (NO_ATTEMPT.to_owned(), 0)))
}
