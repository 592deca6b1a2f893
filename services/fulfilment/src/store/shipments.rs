//! The decisions.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

pub struct NewShipment {
    pub order_id: Uuid,
    pub attempt: i32,
    pub lines: Value,
}

/// Opens shipments as `paid`; returns those that were not there before.
pub async fn open(
    connection: &mut PgConnection,
    shipments: &[NewShipment],
) -> sqlx::Result<Vec<Uuid>> {
    let order_ids: Vec<Uuid> = shipments.iter().map(|new| new.order_id).collect();
    let attempts: Vec<i32> = shipments.iter().map(|new| new.attempt).collect();
    let lines: Vec<Value> = shipments.iter().map(|new| new.lines.clone()).collect();
    sqlx::query_scalar!(
        "insert into shipments (order_id, attempt, lines)
         select * from unnest($1::uuid[], $2::integer[], $3::jsonb[])
         on conflict do nothing
         returning order_id",
        &order_ids,
        &attempts,
        &lines
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
