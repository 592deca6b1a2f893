//! The attempts and refunds of one order as operators see them: rows with the transactions that last
//! changed them.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

pub struct AttemptRow {
    pub attempt: i32,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub status: String,
    pub tries: i32,
    pub sent_at: Option<DateTime<Utc>>,
    pub due_at: DateTime<Utc>,
    pub leased: bool,
    pub key_state: String,
    pub last_error: Option<String>,
    pub charge_id: Option<String>,
    pub decline_code: Option<String>,
    pub failure_code: Option<String>,
    pub rejected_at: Option<DateTime<Utc>>,
    pub rejection_reason: Option<String>,
    /// Only direct charges have these three.
    pub principal_id: Option<String>,
    pub request_key: Option<String>,
    pub reference: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub commit: String,
}

/// The latest attempts, oldest first.
pub async fn attempts(
    connection: &mut PgConnection,
    order_id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<AttemptRow>> {
    let mut rows = sqlx::query_as!(
        AttemptRow,
        r#"select attempt, amount, currency, payment_method, status, tries, sent_at, due_at,
                  lease_token is not null as "leased!", key_state, last_error, charge_id,
                  decline_code, failure_code, rejected_at, rejection_reason, principal_id,
                  request_key, reference, created_at, updated_at, xmin::text as "commit!"
           from payments where order_id = $1 order by attempt desc limit $2"#,
        order_id,
        limit
    )
    .fetch_all(connection)
    .await?;
    rows.reverse();
    Ok(rows)
}

pub struct RefundRow {
    pub key: String,
    pub charge_id: String,
    pub attempt: i32,
    pub amount: i64,
    pub currency: String,
    pub reason: String,
    pub status: String,
    pub tries: i32,
    pub sent_at: Option<DateTime<Utc>>,
    pub last_error: Option<String>,
    pub refund_id: Option<String>,
    pub failure_code: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub commit: String,
}

pub async fn refunds(
    connection: &mut PgConnection,
    order_id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<RefundRow>> {
    sqlx::query_as!(
        RefundRow,
        r#"select key, charge_id, attempt, amount, currency, reason, status, tries, sent_at,
                  last_error, refund_id, failure_code, created_at, updated_at,
                  xmin::text as "commit!"
           from refunds where order_id = $1 limit $2"#,
        order_id,
        limit
    )
    .fetch_all(connection)
    .await
}
