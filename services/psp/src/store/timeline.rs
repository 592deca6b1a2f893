//! What the books have about one reference, as operators see it. Lists are looked up item by item: with a plain
//! list, a plan made on an empty table may read a whole index.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

pub struct ChargeRow {
    pub id: Uuid,
    pub idempotency_key: String,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub status: String,
    pub failure_code: Option<String>,
    /// When a pending charge is due to get its final status; null if it was final from the start.
    pub settles_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub commit: String,
}

pub async fn charges_by_reference(
    connection: &mut PgConnection,
    reference: &str,
    limit: i64,
) -> sqlx::Result<Vec<ChargeRow>> {
    sqlx::query_as!(
        ChargeRow,
        r#"select id, idempotency_key, amount, currency, payment_method, status, failure_code,
                  settles_at, created_at, xmin::text as "commit!"
           from charges where reference = $1 order by id limit $2"#,
        reference,
        limit
    )
    .fetch_all(connection)
    .await
}

pub async fn charges_by_keys(
    connection: &mut PgConnection,
    keys: &[String],
    limit: i64,
) -> sqlx::Result<Vec<ChargeRow>> {
    sqlx::query_as!(
        ChargeRow,
        r#"select found.id, found.idempotency_key, found.amount, found.currency,
                  found.payment_method, found.status, found.failure_code, found.settles_at,
                  found.created_at, found.commit as "commit!"
           from unnest($1::text[]) as wanted (key) cross join lateral (
               select id, idempotency_key, amount, currency, payment_method, status, failure_code,
                      settles_at, created_at, xmin::text as commit
               from charges where idempotency_key = any(array[wanted.key])
               order by idempotency_key, id limit $2
           ) as found
           limit $2"#,
        keys,
        limit
    )
    .fetch_all(connection)
    .await
}

pub struct RefundRow {
    pub id: Uuid,
    pub charge_id: Uuid,
    pub idempotency_key: String,
    pub amount: i64,
    pub currency: String,
    pub status: String,
    pub failure_code: Option<String>,
    pub settles_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub commit: String,
}

/// The refunds of these charges.
pub async fn refunds(
    connection: &mut PgConnection,
    charges: &[Uuid],
    limit: i64,
) -> sqlx::Result<Vec<RefundRow>> {
    sqlx::query_as!(
        RefundRow,
        r#"select found.id, found.charge_id, found.idempotency_key, found.amount, found.currency,
                  found.status, found.failure_code, found.settles_at, found.created_at,
                  found.commit as "commit!"
           from unnest($1::uuid[]) as wanted (id) cross join lateral (
               select id, charge_id, idempotency_key, amount, currency, status, failure_code,
                      settles_at, created_at, xmin::text as commit
               from refunds where charge_id = any(array[wanted.id])
               order by charge_id, id limit $2
           ) as found
           limit $2"#,
        charges,
        limit
    )
    .fetch_all(connection)
    .await
}

pub struct RequestRow {
    pub key: String,
    pub operation: String,
    pub status: i16,
    pub charge_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    pub commit: String,
}

/// The responses stored under these keys.
pub async fn requests(
    connection: &mut PgConnection,
    keys: &[String],
    limit: i64,
) -> sqlx::Result<Vec<RequestRow>> {
    sqlx::query_as!(
        RequestRow,
        r#"select key, operation, status, charge_id, created_at, expires_at, xmin::text as "commit!"
           from requests where key = any($1) limit $2"#,
        keys,
        limit
    )
    .fetch_all(connection)
    .await
}
