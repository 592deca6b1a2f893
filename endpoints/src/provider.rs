//! The provider's side: its books, read from its own database because no answer of ours is proof of
//! what was charged, and its switchable faults.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use crate::client::http;

/// Ids per query; keeps one bind message well below a megabyte.
const BOOKS_BATCH_MAX: usize = 10_000;
const BOOKS_CONNECTIONS_MAX: u32 = 2;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One switchable fault. `reference` narrows it to one order; without it the next charge is hit.
#[derive(Debug, Serialize)]
pub struct Fault {
    pub point: &'static str,
    pub action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// A small pool for reading a service's tables beside the service itself.
pub async fn connect(database_url: &str) -> anyhow::Result<PgPool> {
    PgPoolOptions::new()
        .max_connections(BOOKS_CONNECTIONS_MAX)
        .acquire_timeout(CONNECT_TIMEOUT)
        .connect(database_url)
        .await
        .context("connecting to the database")
}

/// Physical charges per order, zero included: an order missing from the books must show up as zero.
pub async fn charges_per_order(
    psp: &PgPool,
    orders: &[Uuid],
) -> anyhow::Result<HashMap<Uuid, i64>> {
    let query = "select reference, count(*) from charges where reference = any($1) group by 1";
    count_per_order(psp, orders, query).await
}

/// Refunds per order, zero included.
pub async fn refunds_per_order(
    psp: &PgPool,
    orders: &[Uuid],
) -> anyhow::Result<HashMap<Uuid, i64>> {
    let query = "select reference, count(*) from refunds where reference = any($1) group by 1";
    count_per_order(psp, orders, query).await
}

async fn count_per_order(
    psp: &PgPool,
    orders: &[Uuid],
    query: &'static str,
) -> anyhow::Result<HashMap<Uuid, i64>> {
    let mut counts: HashMap<Uuid, i64> = orders.iter().map(|id| (*id, 0)).collect();
    for batch in orders.chunks(BOOKS_BATCH_MAX) {
        let references: Vec<String> = batch.iter().map(Uuid::to_string).collect();
        let rows: Vec<(String, i64)> = sqlx::query_as(query)
            .bind(references)
            .fetch_all(psp)
            .await
            .context("counting in the PSP's books")?;
        for (reference, count) in rows {
            let id = Uuid::parse_str(&reference).context("a reference is no order id")?;
            counts.insert(id, count);
        }
    }
    Ok(counts)
}

/// References with more than one charge, whoever placed them: catches a double charge for an order
/// whose acceptance never reached us.
pub async fn references_charged_twice(psp: &PgPool) -> anyhow::Result<Vec<String>> {
    sqlx::query_scalar(
        "select reference from charges group by reference having count(*) > 1 limit 100",
    )
    .fetch_all(psp)
    .await
    .context("looking for double charges in the PSP's books")
}

pub async fn arm_fault(psp_url: &str, fault: &Fault) -> anyhow::Result<()> {
    let response = http(CONNECT_TIMEOUT)?
        .post(format!("{psp_url}/admin/faults"))
        .json(fault)
        .send()
        .await
        .context("POST /admin/faults")?;
    if !response.status().is_success() {
        bail!(
            "the PSP refused the fault: {} {}",
            response.status(),
            response.text().await.unwrap_or_default()
        );
    }
    Ok(())
}

/// Clears the faults that wait for one order, and no others.
pub async fn clear_faults_of(psp_url: &str, order: Uuid) -> anyhow::Result<()> {
    let http = http(CONNECT_TIMEOUT)?;
    let faults = format!("{psp_url}/admin/faults");
    let board: Board = http
        .get(&faults)
        .send()
        .await
        .context("GET /admin/faults")?
        .json()
        .await?;
    let of_order = Some(order.to_string());
    for fault in board.data.iter().filter(|it| it.reference == of_order) {
        http.delete(format!("{faults}/{}", fault.id))
            .send()
            .await
            .context("DELETE /admin/faults/{id}")?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Board {
    data: Vec<Armed>,
}

#[derive(Deserialize)]
struct Armed {
    id: u64,
    reference: Option<String>,
}

pub async fn clear_faults(psp_url: &str) -> anyhow::Result<()> {
    http(CONNECT_TIMEOUT)?
        .delete(format!("{psp_url}/admin/faults"))
        .send()
        .await
        .and_then(reqwest::Response::error_for_status)
        .context("DELETE /admin/faults")?;
    Ok(())
}
