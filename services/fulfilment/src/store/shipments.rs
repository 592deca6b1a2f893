//! Shipments: one row per order, which holds fulfilment's decision.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{RejectionReason, Status};

pub struct NewShipment {
    pub order_id: Uuid,
    pub attempt: i32,
    pub lines: Value,
    pub status: Status,
    /// Set if the shipment is rejected when it is opened.
    pub reason: Option<RejectionReason>,
}

/// Opens shipments and returns those that did not exist before. An order may appear only once.
pub async fn open(
    connection: &mut PgConnection,
    shipments: &[NewShipment],
) -> sqlx::Result<Vec<Uuid>> {
    let order_ids: Vec<Uuid> = shipments.iter().map(|new| new.order_id).collect();
    let attempts: Vec<i32> = shipments.iter().map(|new| new.attempt).collect();
    let lines: Vec<Value> = shipments.iter().map(|new| new.lines.clone()).collect();
    let statuses: Vec<&str> = shipments.iter().map(|new| new.status.as_str()).collect();
    let reasons: Vec<Option<&str>> = shipments
        .iter()
        .map(|new| reason_text(new.reason))
        .collect();
    sqlx::query_scalar!(
        "insert into shipments (order_id, attempt, lines, status, reason)
         select * from unnest($1::uuid[], $2::integer[], $3::jsonb[], $4::text[], $5::text[])
         on conflict do nothing
         returning order_id",
        &order_ids,
        &attempts,
        &lines,
        &statuses as &[&str],
        &reasons as &[Option<&str>],
    )
    .fetch_all(connection)
    .await
}

/// The decision about a shipment that is still `paid`.
pub struct NewDecision {
    pub order_id: Uuid,
    pub status: Status,
    pub reason: Option<RejectionReason>,
}

/// Records decisions about shipments that are still `paid`; a repeat matches no row. Returns the
/// orders that were decided.
pub async fn decide(
    connection: &mut PgConnection,
    decisions: &[NewDecision],
) -> sqlx::Result<Vec<Uuid>> {
    let order_ids: Vec<Uuid> = decisions.iter().map(|new| new.order_id).collect();
    let statuses: Vec<&str> = decisions.iter().map(|new| new.status.as_str()).collect();
    let reasons: Vec<Option<&str>> = decisions
        .iter()
        .map(|new| reason_text(new.reason))
        .collect();
    sqlx::query_scalar!(
        "update shipments
         set status = decision.status, reason = decision.reason, updated_at = now()
         from unnest($1::uuid[], $2::text[], $3::text[]) as decision (order_id, status, reason)
         where shipments.order_id = decision.order_id and shipments.status = $4
         returning shipments.order_id",
        &order_ids,
        &statuses as &[&str],
        &reasons as &[Option<&str>],
        Status::Paid.as_str(),
    )
    .fetch_all(connection)
    .await
}

/// A decision as the database holds it.
pub struct StoredDecision {
    pub order_id: Uuid,
    pub attempt: i32,
    pub status: String,
    pub reason: Option<String>,
}

/// Locks the decisions about these orders until the transaction ends. The rows are locked in the
/// order of their ids, so that two batches cannot deadlock.
pub async fn lock(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
) -> sqlx::Result<Vec<StoredDecision>> {
    sqlx::query_as!(
        StoredDecision,
        "select order_id, attempt, status, reason from shipments
         where order_id = any($1) order by order_id for update",
        order_ids
    )
    .fetch_all(connection)
    .await
}

/// Records the latest rejected attempt of each order. An earlier attempt changes nothing.
pub async fn record_rejected_attempts(
    connection: &mut PgConnection,
    rejected: &[(Uuid, i32)],
) -> sqlx::Result<()> {
    let (order_ids, attempts): (Vec<Uuid>, Vec<i32>) = rejected.iter().copied().unzip();
    sqlx::query!(
        "update shipments
         set attempt = rejected.attempt, updated_at = now()
         from unnest($1::uuid[], $2::integer[]) as rejected (order_id, attempt)
         where shipments.order_id = rejected.order_id and shipments.attempt < rejected.attempt",
        &order_ids,
        &attempts
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn reason_text(reason: Option<RejectionReason>) -> Option<&'static str> {
    reason.map(RejectionReason::as_str)
}
