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

/// Open attempts of this status, the longest due first. Each principal has its own queue in the index, so
/// the statement reads the first rows of each queue and not the whole backlog.
pub async fn open_attempts(
    connection: &mut PgConnection,
    status: AttemptStatus,
    limit: i64,
) -> sqlx::Result<Vec<AttemptView>> {
    sqlx::query_as!(
        AttemptView,
        r#"select first.order_id, first.attempt, first.status, first.amount, first.currency,
                  first.tries, first.last_error, first.due_at as "next_try_at?",
                  first.lease_token is not null as "leased!", first.charge_id,
                  first.decline_code, first.failure_code, first.key_state as "key_state: KeyState",
                  first.rejection_reason, first.created_at, first.updated_at
           from charged_principals as queue
           cross join lateral (
               select order_id, attempt, status, amount, currency, tries, last_error, due_at,
                      lease_token, charge_id, decline_code, failure_code, key_state,
                      rejection_reason, created_at, updated_at
               from payments
               where status = $1 and status in ('pending', 'unknown')
                 and principal = queue.principal
               order by due_at limit $2
           ) as first
           order by first.due_at limit $2"#,
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

/// Open refunds of this status, the longest due first. Reads the queues as [`open_attempts`] does.
pub async fn open_refunds(
    connection: &mut PgConnection,
    status: RefundStatus,
    limit: i64,
) -> sqlx::Result<Vec<RefundView>> {
    sqlx::query_as!(
        RefundView,
        r#"select first.charge_id, first.order_id, first.attempt, first.status, first.amount,
                  first.currency, first.reason, first.tries, first.last_error,
                  first.due_at as "next_try_at?", first.refund_id, first.failure_code
           from charged_principals as queue
           cross join lateral (
               select charge_id, order_id, attempt, status, amount, currency, reason, tries,
                      last_error, due_at, refund_id, failure_code
               from refunds
               where status = $1 and status in ('pending', 'unknown')
                 and principal = queue.principal
               order by due_at limit $2
           ) as first
           order by first.due_at limit $2"#,
        status.as_str(),
        limit
    )
    .fetch_all(connection)
    .await
}
