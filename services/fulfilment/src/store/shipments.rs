//! The decisions.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

pub struct NewShipment {
    pub order_id: Uuid,
    pub attempt: i32,
    pub lines: Value,
    pub status: &'static str,
    /// Why it does not ship, if that is decided.
    pub reason: Option<&'static str>,
}

/// Opens shipments; returns those that were not there before. No order may be named twice.
pub async fn open(
    connection: &mut PgConnection,
    shipments: &[NewShipment],
) -> sqlx::Result<Vec<Uuid>> {
    let order_ids: Vec<Uuid> = shipments.iter().map(|new| new.order_id).collect();
    let attempts: Vec<i32> = shipments.iter().map(|new| new.attempt).collect();
    let lines: Vec<Value> = shipments.iter().map(|new| new.lines.clone()).collect();
    let statuses: Vec<&str> = shipments.iter().map(|new| new.status).collect();
    let reasons: Vec<Option<&str>> = shipments.iter().map(|new| new.reason).collect();
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

pub struct Verdict {
    pub order_id: Uuid,
    pub status: &'static str,
    pub reason: Option<&'static str>,
}

/// Decides shipments that are still `paid`; a repeat matches no row. Returns those decided.
pub async fn decide(
    connection: &mut PgConnection,
    verdicts: &[Verdict],
) -> sqlx::Result<Vec<Uuid>> {
    let order_ids: Vec<Uuid> = verdicts.iter().map(|verdict| verdict.order_id).collect();
    let statuses: Vec<&str> = verdicts.iter().map(|verdict| verdict.status).collect();
    let reasons: Vec<Option<&str>> = verdicts.iter().map(|verdict| verdict.reason).collect();
    sqlx::query_scalar!(
        "update shipments
         set status = verdict.status, reason = verdict.reason, updated_at = now()
         from unnest($1::uuid[], $2::text[], $3::text[]) as verdict (order_id, status, reason)
         where shipments.order_id = verdict.order_id and shipments.status = 'paid'
         returning shipments.order_id",
        &order_ids,
        &statuses as &[&str],
        &reasons as &[Option<&str>],
    )
    .fetch_all(connection)
    .await
}

pub struct Decided {
    pub order_id: Uuid,
    pub attempt: i32,
    pub status: String,
    pub reason: Option<String>,
}

/// What was decided about these orders; nobody else changes it before the transaction ends. In the
/// order of their ids, so that two batches never wait crosswise.
pub async fn lock(connection: &mut PgConnection, order_ids: &[Uuid]) -> sqlx::Result<Vec<Decided>> {
    sqlx::query_as!(
        Decided,
        "select order_id, attempt, status, reason from shipments
         where order_id = any($1) order by order_id for update",
        order_ids
    )
    .fetch_all(connection)
    .await
}

/// The attempt of each order that was refused last.
pub async fn refuse_also(
    connection: &mut PgConnection,
    refused: &[(Uuid, i32)],
) -> sqlx::Result<()> {
    let (order_ids, attempts): (Vec<Uuid>, Vec<i32>) = refused.iter().copied().unzip();
    sqlx::query!(
        "update shipments
         set attempt = refused.attempt, updated_at = now()
         from unnest($1::uuid[], $2::integer[]) as refused (order_id, attempt)
         where shipments.order_id = refused.order_id and shipments.attempt < refused.attempt",
        &order_ids,
        &attempts
    )
    .execute(connection)
    .await?;
    Ok(())
}
