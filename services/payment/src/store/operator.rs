//! Attempts and refunds as operators see them.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{AttemptStatus, KeyState, RefundStatus};

#[derive(Debug, Serialize)]
pub struct AttemptView {
    pub order_id: Uuid,
    pub attempt: i32,
    pub status: String,
    pub amount: i64,
    pub currency: String,
    pub tries: i32,
    /// Why the outcome is unknown.
    pub last_error: Option<String>,
    /// The time of the next call to the provider. While the attempt is leased: the end of the lease.
    pub next_try_at: Option<DateTime<Utc>>,
    pub leased: bool,
    pub charge_id: Option<String>,
    pub decline_code: Option<String>,
    pub failure_code: Option<String>,
    /// What the provider's key is good for.
    pub key_state: KeyState,
    /// Why fulfilment will not ship the order.
    pub rejection_reason: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

#[derive(Debug, Serialize)]
pub struct RefundView {
    pub charge_id: String,
    pub order_id: Uuid,
    pub attempt: i32,
    pub status: String,
    pub amount: i64,
    pub currency: String,
    pub reason: String,
    pub tries: i32,
    pub last_error: Option<String>,
    pub next_try_at: Option<DateTime<Utc>>,
    pub refund_id: Option<String>,
    pub failure_code: Option<String>,
}

pub async fn attempts_of(
    connection: &mut PgConnection,
    order_id: Uuid,
) -> sqlx::Result<Vec<AttemptView>> {
    sqlx::query_as!(
        AttemptView,
        r#"select order_id, attempt, status, amount, currency, tries, last_error,
                  case when status in ('pending', 'unknown') then due_at end as next_try_at,
                  lease_token is not null as "leased!", charge_id, decline_code, failure_code,
                  key_state as "key_state: KeyState", rejection_reason, created_at, updated_at
           from payments where order_id = $1 order by attempt"#,
        order_id
    )
    .fetch_all(connection)
    .await
}

/// Open attempts of this status, the longest due first.
pub async fn open_attempts(
    connection: &mut PgConnection,
    status: AttemptStatus,
    limit: i64,
) -> sqlx::Result<Vec<AttemptView>> {
    sqlx::query_as!(
        AttemptView,
        r#"select order_id, attempt, status, amount, currency, tries, last_error,
                  due_at as "next_try_at?", lease_token is not null as "leased!", charge_id,
                  decline_code, failure_code, key_state as "key_state: KeyState",
                  rejection_reason, created_at, updated_at
           from payments
           where status = $1 and status in ('pending', 'unknown')
           order by due_at limit $2"#,
        status.as_str(),
        limit
    )
    .fetch_all(connection)
    .await
}

pub async fn refunds_of(
    connection: &mut PgConnection,
    order_id: Uuid,
) -> sqlx::Result<Vec<RefundView>> {
    sqlx::query_as!(
        RefundView,
        "select charge_id, order_id, attempt, status, amount, currency, reason, tries, last_error,
                case when status in ('pending', 'unknown') then due_at end as next_try_at,
                refund_id, failure_code
         from refunds where order_id = $1 order by created_at",
        order_id
    )
    .fetch_all(connection)
    .await
}

/// Open refunds of this status, the longest due first.
pub async fn open_refunds(
    connection: &mut PgConnection,
    status: RefundStatus,
    limit: i64,
) -> sqlx::Result<Vec<RefundView>> {
    sqlx::query_as!(
        RefundView,
        r#"select charge_id, order_id, attempt, status, amount, currency, reason, tries, last_error,
                  due_at as "next_try_at?", refund_id, failure_code
           from refunds
           where status = $1 and status in ('pending', 'unknown')
           order by due_at limit $2"#,
        status.as_str(),
        limit
    )
    .fetch_all(connection)
    .await
}
