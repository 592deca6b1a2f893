//! Charges in the provider's books that no attempt explains.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;

use crate::domain::UnexplainedStatus;
use crate::domain::books::Charge;

/// A row, as operators see it.
#[derive(Clone, Debug, Serialize)]
pub struct UnexplainedCharge {
    pub charge_id: String,
    pub idempotency_key: String,
    pub reference: String,
    pub amount: i64,
    pub currency: String,
    pub charged_at: DateTime<Utc>,
    pub first_seen_at: DateTime<Utc>,
    pub status: UnexplainedStatus,
    pub operator: Option<String>,
    pub reason: Option<String>,
}

/// Stores charges that were not seen before, and returns when each was first seen, by charge id.
pub async fn flag(
    connection: &mut PgConnection,
    charges: &[&Charge],
) -> sqlx::Result<Vec<(String, DateTime<Utc>)>> {
    let ids: Vec<&str> = charges.iter().map(|it| &*it.id).collect();
    let keys: Vec<&str> = charges.iter().map(|it| &*it.idempotency_key).collect();
    let references: Vec<&str> = charges.iter().map(|it| &*it.reference).collect();
    let amounts: Vec<i64> = charges.iter().map(|it| it.amount).collect();
    let currencies: Vec<&str> = charges.iter().map(|it| &*it.currency).collect();
    let times: Vec<DateTime<Utc>> = charges.iter().map(|it| it.created_at).collect();
    let rows = sqlx::query!(
        "insert into unexplained_charges as present
             (charge_id, idempotency_key, reference, amount, currency, charged_at, status)
         select *, $7 from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[],
                                  $6::timestamptz[])
         on conflict (charge_id) do update
         -- A charge that lost its attempt again is open again.
         set status = case when present.status = $8 then $7 else present.status end,
             settled_at = case when present.status = $8 then null else present.settled_at end
         returning charge_id, first_seen_at",
        &ids as &[&str],
        &keys as &[&str],
        &references as &[&str],
        &amounts,
        &currencies as &[&str],
        &times,
        UnexplainedStatus::Open.as_str(),
        UnexplainedStatus::Explained.as_str(),
    )
    .fetch_all(connection)
    .await?;
    let seen = rows
        .into_iter()
        .map(|row| (row.charge_id, row.first_seen_at));
    Ok(seen.collect())
}

/// Settles open rows whose charge an attempt has now.
pub async fn explain(connection: &mut PgConnection, charge_ids: &[&str]) -> sqlx::Result<u64> {
    let explained = sqlx::query!(
        "update unexplained_charges set status = $2, settled_at = now()
         where charge_id = any($1) and status = $3",
        charge_ids as &[&str],
        UnexplainedStatus::Explained.as_str(),
        UnexplainedStatus::Open.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(explained.rows_affected())
}

/// Open rows in the order of their ids, so the oldest charges first.
pub async fn open(
    connection: &mut PgConnection,
    limit: i64,
) -> sqlx::Result<Vec<UnexplainedCharge>> {
    sqlx::query_as!(
        UnexplainedCharge,
        r#"select charge_id, idempotency_key, reference, amount, currency, charged_at,
                  first_seen_at, status as "status: UnexplainedStatus", operator, reason
           from unexplained_charges where status = 'open' order by charge_id limit $1"#,
        limit
    )
    .fetch_all(connection)
    .await
}

/// One row, locked until the transaction ends.
pub async fn lock(
    connection: &mut PgConnection,
    charge_id: &str,
) -> sqlx::Result<Option<UnexplainedCharge>> {
    sqlx::query_as!(
        UnexplainedCharge,
        r#"select charge_id, idempotency_key, reference, amount, currency, charged_at,
                  first_seen_at, status as "status: UnexplainedStatus", operator, reason
           from unexplained_charges where charge_id = $1 for update"#,
        charge_id
    )
    .fetch_optional(connection)
    .await
}

/// An operator's decision about a locked row.
pub async fn settle(
    connection: &mut PgConnection,
    charge_id: &str,
    status: UnexplainedStatus,
    operator: &str,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update unexplained_charges
         set status = $2, operator = $3, reason = $4, settled_at = now()
         where charge_id = $1",
        charge_id,
        status.as_str(),
        operator,
        reason,
    )
    .execute(connection)
    .await?;
    Ok(())
}
