//! Direct charges: payment attempts that a client requested over HTTP.

use chrono::{DateTime, Utc};
use idempotency::{ContentHash, Key};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::provider_key::direct_reference;
use crate::domain::{AttemptStatus, DirectCharge};
use crate::store::queues;

/// A direct charge to store, in the transaction that claims its idempotency key.
#[derive(Debug)]
pub struct NewPayment<'a> {
    pub id: Uuid,
    pub principal_id: &'a str,
    pub key: &'a Key,
    pub charge: &'a DirectCharge,
    pub content_hash: &'a ContentHash,
    pub correlation_id: &'a str,
    pub traceparent: Option<&'a str>,
}

/// Stores the attempt, due now. Its number is 0 and its name at the provider is not the id alone, so an
/// order with the same id cannot conflict, here or there. Returns `false` if the reference is taken.
/// A concurrent request with the same reference waits here until the first one has committed.
pub async fn open(connection: &mut PgConnection, new: &NewPayment<'_>) -> sqlx::Result<bool> {
    queues::add_principal(connection, new.principal_id).await?;
    let inserted = sqlx::query!(
        "insert into payments (order_id, attempt, amount, currency, payment_method, lines,
                               correlation_id, traceparent, principal_id, principal, request_key,
                               reference, content_hash, status, provider_reference)
         values ($1, 0, $2, $3, $4, '[]', $5, $6, $7, $7, $8, $9, $10, $11, $12)
         on conflict (principal_id, reference) where reference is not null do nothing",
        new.id,
        new.charge.amount.amount(),
        new.charge.amount.currency().code(),
        new.charge.payment_method.as_str(),
        new.correlation_id,
        new.traceparent,
        new.principal_id,
        new.key.as_str(),
        new.charge.reference.as_deref(),
        new.content_hash.as_bytes(),
        AttemptStatus::Pending.as_str(),
        direct_reference(new.id)
    )
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

#[derive(Clone, Debug)]
pub struct Payment {
    pub id: Uuid,
    pub status: AttemptStatus,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub reference: Option<String>,
    pub content_hash: Vec<u8>,
    pub charge_id: Option<String>,
    pub decline_code: Option<String>,
    pub failure_code: Option<String>,
    pub tries: i32,
    pub last_error: Option<String>,
    pub due_at: DateTime<Utc>,
    pub correlation_id: String,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

pub async fn find(
    connection: &mut PgConnection,
    principal_id: &str,
    id: Uuid,
) -> sqlx::Result<Option<Payment>> {
    sqlx::query_as!(
        Payment,
        r#"select order_id as id, status as "status: AttemptStatus", amount, currency,
                  payment_method, reference, content_hash as "content_hash!", charge_id,
                  decline_code, failure_code, tries, last_error, due_at, correlation_id, created_at, updated_at
           from payments where order_id = $1 and attempt = 0 and principal_id = $2"#,
        id,
        principal_id
    )
    .fetch_optional(connection)
    .await
}

pub async fn find_by_reference(
    connection: &mut PgConnection,
    principal_id: &str,
    reference: &str,
) -> sqlx::Result<Option<Payment>> {
    sqlx::query_as!(
        Payment,
        r#"select order_id as id, status as "status: AttemptStatus", amount, currency,
                  payment_method, reference, content_hash as "content_hash!", charge_id,
                  decline_code, failure_code, tries, last_error, due_at, correlation_id, created_at, updated_at
           from payments where principal_id = $1 and reference = $2"#,
        principal_id,
        reference
    )
    .fetch_optional(connection)
    .await
}
