//! Attempts that a charger works on: leased, settled, postponed.

use std::time::Duration;

use leases::LeaseRequest;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{AttemptStatus, Leased, Postponement, ProviderCall};

/// Leases due attempts of this status, the longest due first. `skip locked`: concurrent chargers take
/// different rows instead of waiting for the same one. An attempt that was leased before and never
/// settled becomes `unknown`.
///
/// `resend_max`: how long after its first try a key may be sent again. After that the provider may have
/// forgotten the key, and the charge is looked up instead.
pub async fn lease_due(
    connection: &mut PgConnection,
    status: AttemptStatus,
    request: LeaseRequest,
    resend_max: Duration,
) -> sqlx::Result<Vec<Leased>> {
    let rows = sqlx::query!(
        r#"with due as (
            select order_id, attempt,
                   first_called_at <= now() - make_interval(secs => $4) as forgotten
            from payments
            where status = $5 and status in ('pending', 'unknown') and due_at <= now()
            order by due_at
            limit $3
            for update skip locked
        )
        update payments
        set lease_token = $1, due_at = now() + make_interval(secs => $2), tries = tries + 1,
            status = case when tries = 0 then $6 else $7 end,
            first_called_at = coalesce(first_called_at, now())
        from due
        where payments.order_id = due.order_id and payments.attempt = due.attempt
        returning payments.order_id, payments.attempt, lease_token as "token!", amount, currency,
                  payment_method, tries, correlation_id, traceparent,
                  rejected_at is not null as "rejected!", coalesce(forgotten, false) as "forgotten!""#,
        request.token,
        request.lease.as_secs_f64(),
        request.limit,
        resend_max.as_secs_f64(),
        status.as_str(),
        AttemptStatus::leased(true).as_str(),
        AttemptStatus::leased(false).as_str()
    )
    .fetch_all(connection)
    .await?;
    let leased = rows.into_iter().map(|row| Leased {
        order_id: row.order_id,
        attempt: row.attempt,
        token: row.token,
        amount: row.amount,
        currency: row.currency,
        tries: row.tries,
        correlation_id: row.correlation_id,
        traceparent: row.traceparent,
        call: ProviderCall::for_attempt(row.rejected, row.forgotten, row.payment_method),
    });
    Ok(leased.collect())
}

/// A definite outcome of a leased attempt.
#[derive(Clone, Debug)]
pub struct AttemptSettlement {
    pub order_id: Uuid,
    pub attempt: i32,
    pub token: Uuid,
    pub status: AttemptStatus,
    pub charge_id: Option<String>,
    pub decline_code: Option<String>,
}

/// An attempt that a statement has settled.
#[derive(Debug)]
pub struct SettledAttempt {
    pub order_id: Uuid,
    pub attempt: i32,
    /// The token of the lease that this result belongs to.
    pub token: Uuid,
    pub amount: i64,
    pub currency: String,
    pub customer_id: String,
    pub lines: Value,
    pub correlation_id: String,
    /// Why fulfilment will not ship the order, if it has rejected it.
    pub rejection_reason: Option<String>,
    pub payment_method: String,
    /// Only for a direct charge.
    pub principal_id: Option<String>,
    pub request_key: Option<String>,
    pub reference: Option<String>,
}

/// Settles the attempts that still have this lease token, and returns them. Other results are stale:
/// the lease expired, and the attempt belongs to another charger or is settled.
pub async fn settle(
    connection: &mut PgConnection,
    outcomes: &[AttemptSettlement],
) -> sqlx::Result<Vec<SettledAttempt>> {
    let order_ids: Vec<Uuid> = outcomes.iter().map(|outcome| outcome.order_id).collect();
    let attempts: Vec<i32> = outcomes.iter().map(|outcome| outcome.attempt).collect();
    let tokens: Vec<Uuid> = outcomes.iter().map(|outcome| outcome.token).collect();
    let statuses: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome.status.as_str())
        .collect();
    let charges: Vec<Option<&str>> = outcomes
        .iter()
        .map(|outcome| outcome.charge_id.as_deref())
        .collect();
    let declines: Vec<Option<&str>> = outcomes
        .iter()
        .map(|outcome| outcome.decline_code.as_deref())
        .collect();
    sqlx::query_as!(
        SettledAttempt,
        r#"update payments
         set status = outcome.status, charge_id = outcome.charge_id,
             decline_code = outcome.decline_code, lease_token = null, last_error = null,
             updated_at = now()
         from unnest($1::uuid[], $2::integer[], $3::uuid[], $4::text[], $5::text[], $6::text[])
            as outcome (order_id, attempt, token, status, charge_id, decline_code)
         where payments.order_id = outcome.order_id and payments.attempt = outcome.attempt
           and payments.lease_token = outcome.token
         returning payments.order_id, payments.attempt, outcome.token as "token!", amount,
                   currency, customer_id, lines, correlation_id, rejection_reason,
                   payment_method, principal_id, request_key, reference"#,
        &order_ids,
        &attempts,
        &tokens,
        &statuses as &[&str],
        &charges as &[Option<&str>],
        &declines as &[Option<&str>],
    )
    .fetch_all(connection)
    .await
}

/// A charge of an open attempt that the reconciler found in the provider's books.
#[derive(Clone, Debug)]
pub struct FoundCharge {
    pub order_id: Uuid,
    pub attempt: i32,
    pub charge_id: String,
}

/// Captures attempts that are still open, even if a charger holds their lease: the provider's books are
/// authoritative. The charger's result is then stale.
pub async fn capture_found(
    connection: &mut PgConnection,
    found: &[FoundCharge],
) -> sqlx::Result<Vec<SettledAttempt>> {
    let order_ids: Vec<Uuid> = found.iter().map(|found| found.order_id).collect();
    let attempts: Vec<i32> = found.iter().map(|found| found.attempt).collect();
    let charges: Vec<&str> = found.iter().map(|found| &*found.charge_id).collect();
    sqlx::query_as!(
        SettledAttempt,
        r#"update payments
         set status = $5, charge_id = found.charge_id, lease_token = null,
             last_error = null, updated_at = now()
         from unnest($1::uuid[], $2::integer[], $3::text[])
            as found (order_id, attempt, charge_id)
         where payments.order_id = found.order_id and payments.attempt = found.attempt
           and payments.status in ('pending', 'unknown')
         returning payments.order_id, payments.attempt, $4::uuid as "token!", amount,
                   currency, customer_id, lines, correlation_id, rejection_reason,
                   payment_method, principal_id, request_key, reference"#,
        &order_ids,
        &attempts,
        &charges as &[&str],
        Uuid::nil(),
        AttemptStatus::Captured.as_str(),
    )
    .fetch_all(connection)
    .await
}

/// Ends the leases of attempts, which are due again after their delay. Checks the lease token, as
/// [`settle`] does.
pub async fn postpone(
    connection: &mut PgConnection,
    postponements: &[Postponement<'_>],
) -> sqlx::Result<()> {
    let order_ids: Vec<Uuid> = postponements.iter().map(|p| p.leased.order_id).collect();
    let attempts: Vec<i32> = postponements.iter().map(|p| p.leased.attempt).collect();
    let tokens: Vec<Uuid> = postponements.iter().map(|p| p.leased.token).collect();
    let delays: Vec<f64> = postponements
        .iter()
        .map(|p| p.delay.as_secs_f64())
        .collect();
    let absences: Vec<bool> = postponements.iter().map(|p| p.absent).collect();
    let errors: Vec<&str> = postponements.iter().map(|p| p.error).collect();
    sqlx::query!(
        "update payments
         set due_at = now() + make_interval(secs => later.delay), lease_token = null,
             status = $7, last_error = later.error, updated_at = now(),
             first_called_at = case when later.absent then null else first_called_at end
         from unnest($1::uuid[], $2::integer[], $3::uuid[], $4::double precision[], $5::text[],
                     $6::boolean[]) as later (order_id, attempt, token, delay, error, absent)
         where payments.order_id = later.order_id and payments.attempt = later.attempt
           and payments.lease_token = later.token",
        &order_ids,
        &attempts,
        &tokens,
        &delays,
        &errors as &[&str],
        &absences,
        AttemptStatus::Unknown.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(())
}
