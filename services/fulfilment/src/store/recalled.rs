//! Decisions that are read back from the topic.

use events::Line;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{Fact, RejectionReason, Status};

/// A decision to add, with everything that is known about it.
pub struct RecalledShipment {
    order_id: Uuid,
    attempt: i32,
    fact: Fact,
    lines: Value,
}

impl RecalledShipment {
    pub fn new(
        order_id: Uuid,
        attempt: i32,
        fact: Fact,
        lines: &[Line],
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            order_id,
            attempt,
            fact,
            lines: serde_json::to_value(lines)?,
        })
    }
}

/// Adds decided shipments. The caller has seen that they do not exist, and nothing else runs.
pub async fn insert(
    connection: &mut PgConnection,
    shipments: &[RecalledShipment],
) -> sqlx::Result<()> {
    let order_ids: Vec<Uuid> = shipments.iter().map(|it| it.order_id).collect();
    let attempts: Vec<i32> = shipments.iter().map(|it| it.attempt).collect();
    let lines: Vec<Value> = shipments.iter().map(|it| it.lines.clone()).collect();
    let statuses: Vec<&str> = shipments
        .iter()
        .map(|it| it.fact.status().as_str())
        .collect();
    let reasons: Vec<Option<&str>> = shipments
        .iter()
        .map(|it| it.fact.reason().map(RejectionReason::as_str))
        .collect();
    sqlx::query!(
        "insert into shipments (order_id, attempt, lines, status, reason)
         select * from unnest($1::uuid[], $2::integer[], $3::jsonb[], $4::text[], $5::text[])",
        &order_ids,
        &attempts,
        &lines,
        &statuses as &[&str],
        &reasons as &[Option<&str>],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Of these orders, the shipped ones without lines. Every order has lines, so theirs are missing.
pub async fn without_lines_of(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select order_id from shipments
         where order_id = any($1) and status = $2 and lines = '[]' order by order_id for update",
        order_ids,
        Status::Shipped.as_str(),
    )
    .fetch_all(connection)
    .await
}

/// All shipped orders without lines.
pub async fn without_lines(connection: &mut PgConnection) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select order_id from shipments where status = $1 and lines = '[]' order by order_id",
        Status::Shipped.as_str(),
    )
    .fetch_all(connection)
    .await
}

pub async fn set_lines(
    connection: &mut PgConnection,
    order_id: Uuid,
    lines: &Value,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update shipments set lines = $2, updated_at = now() where order_id = $1",
        order_id,
        lines,
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The number of sessions that the service has in this database. A service that runs always has some:
/// its relays hold theirs.
pub async fn services(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from pg_stat_activity
           where datname = current_database() and application_name = 'fulfilment'
             and pid <> pg_backend_pid()"#
    )
    .fetch_one(connection)
    .await
}

/// Whether these tables have all decisions: they were not restored from a backup, or recalled since.
pub async fn is_complete(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let current = sqlx::query_scalar!(
        r#"select shipments_oid = 'shipments'::regclass::oid as "current!" from recalled_tables"#
    );
    Ok(current.fetch_optional(connection).await? == Some(true))
}

/// These tables have all decisions that the topic has.
pub async fn complete(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into recalled_tables (shipments_oid) values ('shipments'::regclass::oid)
         on conflict (only_row) do update set shipments_oid = excluded.shipments_oid"
    )
    .execute(connection)
    .await?;
    Ok(())
}
