//! What the services' tables and the provider show about one order.

use std::time::Duration;

use anyhow::Context;
use sqlx::PgPool;
use uuid::Uuid;

use endpoints::{Endpoints, Service, client, provider, status};
use invariants::Databases;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Printed as the status when payment has no attempt for the order.
const NO_ATTEMPT: &str = "none";

/// The evidence, and whether the condition holds.
#[derive(Debug, Default)]
pub(super) struct Observation {
    pub(super) holds: bool,
    pub(super) text: String,
}

impl Observation {
    fn new(holds: bool, text: String) -> Self {
        Observation { holds, text }
    }
}

pub(super) async fn in_flight(endpoints: &Endpoints, order: Uuid) -> anyhow::Result<Observation> {
    let key = format!("pay:{order}:1");
    let response = client::http(REQUEST_TIMEOUT)?
        .get(format!("{}/v1/charges", endpoints.url(Service::Psp)))
        .query(&[("key", &key)])
        .send()
        .await
        .context("looking up the key at the provider")?;
    let status = response.status();
    Ok(Observation::new(
        status == reqwest::StatusCode::CONFLICT,
        format!("GET /v1/charges?key={key} at the provider returns {status}"),
    ))
}

pub(super) async fn charged_unrecorded(
    databases: &Databases,
    order: Uuid,
) -> anyhow::Result<Observation> {
    let counts = provider::charges_per_order(&databases.psp, &[order]).await?;
    let charges = counts.get(&order).copied().unwrap_or_default();
    let (status, tries) = attempt(databases, order).await?;
    let evidence = format!(
        "count(*) in the provider's books: {charges}; payment's own table: {status}, tries {tries}"
    );
    let is_open = [status::ATTEMPT_PENDING, status::ATTEMPT_UNKNOWN].contains(&&*status);
    Ok(Observation::new(charges > 0 && is_open, evidence))
}

/// Order's outbox shows the event as unpublished. `delivered`: whether payment must have received it.
pub(super) async fn unpublished(
    databases: &Databases,
    order: Uuid,
    delivered: bool,
) -> anyhow::Result<Observation> {
    let (status, _) = attempt(databases, order).await?;
    let query = "select count(*) from outbox where subject = $1 and published_at is null";
    let unpublished = count(&databases.order, query, order).await?;
    let evidence =
        format!("unpublished in order's outbox: {unpublished}; payment's attempt: {status}");
    let is_delivered = status != NO_ATTEMPT;
    Ok(Observation::new(
        unpublished > 0 && delivered == is_delivered,
        evidence,
    ))
}

pub(super) async fn taken_over(databases: &Databases, order: Uuid) -> anyhow::Result<Observation> {
    let (status, tries) = attempt(databases, order).await?;
    let evidence = format!("payment's own table: {status}, tries {tries}");
    Ok(Observation::new(tries >= 2, evidence))
}

pub(super) async fn recorded_once(
    databases: &Databases,
    order: Uuid,
) -> anyhow::Result<Observation> {
    let (status, tries) = attempt(databases, order).await?;
    let query =
        "select count(*) from outbox where subject = $1 and event_type = 'payment.captured'";
    let announced = count(&databases.payment, query, order).await?;
    let evidence = format!(
        "payment's own table: {status}, tries {tries}; payment.captured in its outbox: {announced}"
    );
    let is_once = status == status::ATTEMPT_CAPTURED && announced == 1;
    Ok(Observation::new(is_once, evidence))
}

pub(super) async fn paid(databases: &Databases, order: Uuid) -> anyhow::Result<Observation> {
    let status: Option<String> = sqlx::query_scalar("select status from orders where id = $1")
        .bind(order)
        .fetch_optional(&databases.order)
        .await
        .context("reading the order's status")?;
    let status = status.unwrap_or_else(|| "not found".to_owned());
    let evidence = format!("order {order} is {status}");
    Ok(Observation::new(status == status::ORDER_PAID, evidence))
}

pub(super) async fn handled_uncommitted(
    databases: &Databases,
    order: Uuid,
) -> anyhow::Result<Observation> {
    let paid = paid(databases, order).await?;
    // No running process leaves a transaction idle for this long.
    let query = "select count(*) from pg_stat_activity
                 where datname = current_database() and state = 'idle in transaction'
                   and state_change < now() - interval '500 ms'
                   and not exists (select from shipments where order_id = $1)";
    let idle = count(&databases.fulfilment, query, order).await?;
    let evidence = format!("{}; stopped transactions of fulfilment: {idle}", paid.text);
    Ok(Observation::new(paid.holds && idle > 0, evidence))
}

/// Runs a counting query about one order.
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
            .context("reading the payment table")?;
    Ok(row.unwrap_or_else(|| (NO_ATTEMPT.to_owned(), 0)))
}
