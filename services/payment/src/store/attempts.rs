//! Payment attempts that events open and reject.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{AttemptStatus, ProviderLimits};

/// A payment attempt to store before the provider is called.
pub struct NewAttempt {
    pub order_id: Uuid,
    pub attempt: i32,
    /// Empty if the event did not name it.
    pub principal: String,
    pub amount: i64,
    pub currency: &'static str,
    pub payment_method: String,
    pub customer_id: String,
    pub lines: Value,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    /// When the payment was requested: the time of the event. The provider may have seen the key since
    /// then, because this database may have been restored to an older state.
    pub requested_at: DateTime<Utc>,
}

/// A lease for attempts that are stored now.
pub struct NewLease<'a> {
    /// `None` in an unprotected program.
    pub token: Option<Uuid>,
    pub lease: Duration,
    /// Which of the attempts to lease.
    pub attempts: &'a [bool],
    pub limits: &'a ProviderLimits,
}

/// Stores attempts, and their principals: sorted, so that two transactions cannot wait for each other. An
/// existing attempt stays unchanged. A unique index rejects a second live attempt of one order. Returns the new
/// attempts that are leased: those of the lease whose provider key cannot have been used before. See
/// [`crate::store::payments::lease_due`] for the others.
pub async fn open(
    connection: &mut PgConnection,
    attempts: &[NewAttempt],
    lease: Option<&NewLease<'_>>,
) -> sqlx::Result<HashSet<(Uuid, i32)>> {
    let has_slot = lease.map_or_else(|| vec![false; attempts.len()], |it| it.attempts.to_vec());
    let order_ids: Vec<Uuid> = attempts.iter().map(|new| new.order_id).collect();
    let numbers: Vec<i32> = attempts.iter().map(|new| new.attempt).collect();
    let amounts: Vec<i64> = attempts.iter().map(|new| new.amount).collect();
    let currencies: Vec<&str> = attempts.iter().map(|new| new.currency).collect();
    let methods: Vec<&str> = attempts.iter().map(|new| &*new.payment_method).collect();
    let customers: Vec<&str> = attempts.iter().map(|new| &*new.customer_id).collect();
    let lines: Vec<Value> = attempts.iter().map(|new| new.lines.clone()).collect();
    let correlations: Vec<&str> = attempts.iter().map(|new| &*new.correlation_id).collect();
    let traces: Vec<Option<&str>> = attempts
        .iter()
        .map(|new| new.traceparent.as_deref())
        .collect();
    let principals: Vec<&str> = attempts.iter().map(|new| &*new.principal).collect();
    let requested: Vec<DateTime<Utc>> = attempts.iter().map(|new| new.requested_at).collect();
    let stored = sqlx::query!(
        r#"with known as (
             insert into charged_principals (principal)
             select distinct principal from unnest($10::text[]) as new (principal) order by principal
             on conflict do nothing
         )
         insert into payments (order_id, attempt, amount, currency, payment_method, customer_id,
                               lines, correlation_id, traceparent, principal, first_called_at,
                               status, lease_token, due_at, tries, sent_at)
         select order_id, attempt, amount, currency, payment_method, customer_id, lines, correlation_id,
                traceparent, principal, requested_at, $12,
                case when is_leased then $14::uuid end,
                case when is_leased then clock_timestamp() + make_interval(secs => $15)
                     else clock_timestamp() end,
                case when is_leased then 1 else 0 end,
                case when is_leased then now() end
         from unnest($1::uuid[], $2::integer[], $3::bigint[], $4::text[], $5::text[], $6::text[],
                     $7::jsonb[], $8::text[], $9::text[], $10::text[], $11::timestamptz[],
                     $13::boolean[])
            as new (order_id, attempt, amount, currency, payment_method, customer_id, lines,
                    correlation_id, traceparent, principal, requested_at, has_slot)
            cross join lateral (
                select has_slot and requested_at > now() - make_interval(secs => $16)
                       and requested_at >= coalesce($17::timestamptz, '-infinity') as is_leased
            ) as decision
         on conflict (order_id, attempt) do nothing
         returning order_id, attempt, tries > 0 as "is_leased!""#,
        &order_ids,
        &numbers,
        &amounts,
        &currencies as &[&str],
        &methods as &[&str],
        &customers as &[&str],
        &lines,
        &correlations as &[&str],
        &traces as &[Option<&str>],
        &principals as &[&str],
        &requested,
        AttemptStatus::Pending.as_str(),
        &has_slot,
        lease.and_then(|it| it.token),
        lease.map_or(0.0, |it| it.lease.as_secs_f64()),
        lease.map_or(0.0, |it| it.limits.resend_max.as_secs_f64()),
        lease.and_then(|it| it.limits.hold_before),
    )
    .fetch_all(connection)
    .await?;
    let leased = stored.into_iter().filter(|row| row.is_leased);
    Ok(leased.map(|row| (row.order_id, row.attempt)).collect())
}

/// A locked attempt whose order is being rejected.
#[derive(Debug)]
pub struct LockedAttempt {
    pub order_id: Uuid,
    pub attempt: i32,
    pub status: AttemptStatus,
    pub tries: i32,
    /// When the payment was requested, or the key was first sent.
    pub first_called_at: Option<DateTime<Utc>>,
    pub rejected_before: bool,
    pub principal: String,
    pub amount: i64,
    pub currency: String,
    pub customer_id: String,
    pub charge_id: Option<String>,
}

/// Inserts a voided row for each attempt that does not exist yet, so that it can never be opened.
/// Returns these attempts. The migration explains how a rejection can arrive before its attempt.
pub async fn void_missing(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
    attempts: &[i32],
    reasons: &[&str],
    correlations: &[&str],
) -> sqlx::Result<Vec<(Uuid, i32)>> {
    let rows = sqlx::query!(
        "insert into payments (order_id, attempt, amount, currency, payment_method, lines, status,
                               rejected_at, rejection_reason, correlation_id)
         select order_id, attempt, 0, '', '', '[]', $5, now(), reason, correlation_id
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::text[])
            as rejection (order_id, attempt, reason, correlation_id)
         on conflict (order_id, attempt) do nothing
         returning order_id, attempt",
        order_ids,
        attempts,
        reasons as &[&str],
        correlations as &[&str],
        AttemptStatus::Voided.as_str(),
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.order_id, row.attempt))
        .collect())
}

/// Locks these attempts, in the order of the given keys. All writers lock attempts in the order of
/// (order, attempt), so that two of them cannot deadlock.
pub async fn lock(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
    attempts: &[i32],
) -> sqlx::Result<Vec<LockedAttempt>> {
    sqlx::query_as!(
        LockedAttempt,
        r#"select locked.order_id, locked.attempt, status as "status: AttemptStatus", tries,
                  first_called_at, rejected_at is not null as "rejected_before!", principal, amount, currency,
                  customer_id, charge_id
           from unnest($1::uuid[], $2::integer[]) as key (order_id, attempt)
           cross join lateral (
               select order_id, attempt, status, tries, first_called_at, rejected_at, principal,
                      amount, currency, customer_id, charge_id
               from payments
               where payments.order_id = key.order_id and payments.attempt = key.attempt
                 and principal_id is null
               for update
           ) as locked"#,
        order_ids,
        attempts
    )
    .fetch_all(connection)
    .await
}

/// The update of a locked attempt whose order was rejected.
#[derive(Clone, Copy, Debug)]
pub struct RejectionMark<'a> {
    pub order_id: Uuid,
    pub attempt: i32,
    pub reason: &'a str,
    /// Whether to void the attempt, because no charger ever leased it.
    pub void: bool,
}

/// Marks attempts as rejected. A leased attempt is due again when its lease ends, any other is due
/// now.
pub async fn mark_rejected(
    connection: &mut PgConnection,
    marks: &[RejectionMark<'_>],
) -> sqlx::Result<()> {
    let order_ids: Vec<Uuid> = marks.iter().map(|mark| mark.order_id).collect();
    let attempts: Vec<i32> = marks.iter().map(|mark| mark.attempt).collect();
    let reasons: Vec<&str> = marks.iter().map(|mark| mark.reason).collect();
    let voids: Vec<bool> = marks.iter().map(|mark| mark.void).collect();
    sqlx::query!(
        "update payments
         set rejected_at = now(), rejection_reason = mark.reason, updated_at = now(),
             status = case when mark.void then $5 else status end,
             due_at = case when lease_token is null then clock_timestamp() else due_at end
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::boolean[])
            as mark (order_id, attempt, reason, void)
         where payments.order_id = any(array[mark.order_id])
           and payments.attempt = mark.attempt",
        &order_ids,
        &attempts,
        &reasons as &[&str],
        &voids,
        AttemptStatus::Voided.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(())
}
