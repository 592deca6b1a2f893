//! Attempts and refunds that an operator settles. The rows are locked first, so the updates need no
//! condition.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{AttemptStatus, ProviderAnswer, RefundStatus};
use crate::store::payments::SettledAttempt;
use crate::store::refunds::SettledRefund;

pub struct LockedAttempt {
    pub status: AttemptStatus,
    pub charge_id: Option<String>,
}

pub async fn lock_attempt(
    connection: &mut PgConnection,
    order_id: Uuid,
    attempt: i32,
) -> sqlx::Result<Option<LockedAttempt>> {
    sqlx::query_as!(
        LockedAttempt,
        r#"select status as "status: AttemptStatus", charge_id from payments
           where order_id = $1 and attempt = $2 for update"#,
        order_id,
        attempt
    )
    .fetch_optional(connection)
    .await
}

pub async fn settle_attempt(
    connection: &mut PgConnection,
    order_id: Uuid,
    attempt: i32,
    answer: &ProviderAnswer,
    status: AttemptStatus,
) -> sqlx::Result<SettledAttempt> {
    let (charge_id, failure_code) = match answer {
        ProviderAnswer::Captured { charge_id } => (Some(&**charge_id), None),
        ProviderAnswer::Failed { code } => (None, Some(&**code)),
        _ => (None, None),
    };
    sqlx::query_as!(
        SettledAttempt,
        r#"update payments
           set status = $3, charge_id = $4, failure_code = $5, lease_token = null,
               last_error = null, updated_at = now()
           where order_id = $1 and attempt = $2
           returning order_id, attempt, $6::uuid as "token!", amount, currency, customer_id, lines,
                     correlation_id, rejection_reason, payment_method,
                     status as "status: AttemptStatus", principal, principal_id, request_key,
                     reference"#,
        order_id,
        attempt,
        status.as_str(),
        charge_id,
        failure_code,
        Uuid::nil(),
    )
    .fetch_one(connection)
    .await
}

pub struct LockedRefund {
    pub status: RefundStatus,
    pub refund_id: Option<String>,
}

pub async fn lock_refund(
    connection: &mut PgConnection,
    charge_id: &str,
) -> sqlx::Result<Option<LockedRefund>> {
    sqlx::query_as!(
        LockedRefund,
        r#"select status as "status: RefundStatus", refund_id from refunds
           where charge_id = $1 for update"#,
        charge_id
    )
    .fetch_optional(connection)
    .await
}

pub async fn settle_refund(
    connection: &mut PgConnection,
    charge_id: &str,
    status: RefundStatus,
    refund_id: Option<&str>,
    failure_code: Option<&str>,
) -> sqlx::Result<SettledRefund> {
    sqlx::query_as!(
        SettledRefund,
        r#"update refunds
           set status = $2, refund_id = $3, failure_code = $4, lease_token = null,
               last_error = null, updated_at = now()
           where charge_id = $1
           returning key, charge_id, status as "status: RefundStatus", refund_id, order_id, attempt,
                     amount, currency, reason, correlation_id,
                     coalesce((select customer_id from payments
                               where payments.order_id = refunds.order_id
                                 and payments.attempt = refunds.attempt), '') as "customer_id!""#,
        charge_id,
        status.as_str(),
        refund_id,
        failure_code,
    )
    .fetch_one(connection)
    .await
}
