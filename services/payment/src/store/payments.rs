//! Attempts in the hands of a charger: leased, settled, given back.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{Errand, Status};
use crate::store::lease::{Leased, Postponement, Terms};

/// Leases attempts of this status that are due, the longest due first. `skip locked`: chargers side
/// by side take different rows instead of queueing for the same one. An attempt that somebody had in
/// hand before and never settled is `unknown` from here on.
pub async fn lease_due(
    connection: &mut PgConnection,
    status: Status,
    terms: Terms,
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
            status = case when tries = 0 then 'pending' else 'unknown' end,
            first_called_at = coalesce(first_called_at, now())
        from due
        where payments.order_id = due.order_id and payments.attempt = due.attempt
        returning payments.order_id, payments.attempt, lease_token as "token!", amount, currency,
                  payment_method, tries, correlation_id, traceparent,
                  refused_at is not null as "refused!", coalesce(forgotten, false) as "forgotten!""#,
        terms.token,
        terms.lease.as_secs_f64(),
        terms.limit,
        terms.resend_max.as_secs_f64(),
        status.as_str()
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
        errand: Errand::of_attempt(row.refused, row.forgotten, row.payment_method),
    });
    Ok(leased.collect())
}

/// A definite outcome of a leased attempt.
#[derive(Clone, Debug)]
pub struct Settlement {
    pub order_id: Uuid,
    pub attempt: i32,
    pub token: Uuid,
    pub status: &'static str,
    pub charge_id: Option<String>,
    pub decline_code: Option<String>,
}

/// An attempt that was settled just now.
#[derive(Debug)]
pub struct Settled {
    pub order_id: Uuid,
    pub attempt: i32,
    /// Of the lease whose outcome it was.
    pub token: Uuid,
    pub amount: i64,
    pub currency: String,
    pub customer_id: String,
    pub lines: Value,
    pub correlation_id: String,
    /// Why fulfilment will not ship it, if it has said so by now.
    pub refusal: Option<String>,
    pub payment_method: String,
    /// Of a direct charge.
    pub principal_id: Option<String>,
    pub request_key: Option<String>,
    pub reference: Option<String>,
}

/// Records the outcomes of those attempts whose lease is still in force, and returns them. A charger
/// that overslept its lease is refused here: its attempt belongs to another one, or is settled.
pub async fn settle(
    connection: &mut PgConnection,
    outcomes: &[Settlement],
) -> sqlx::Result<Vec<Settled>> {
    let order_ids: Vec<Uuid> = outcomes.iter().map(|outcome| outcome.order_id).collect();
    let attempts: Vec<i32> = outcomes.iter().map(|outcome| outcome.attempt).collect();
    let tokens: Vec<Uuid> = outcomes.iter().map(|outcome| outcome.token).collect();
    let statuses: Vec<&str> = outcomes.iter().map(|outcome| outcome.status).collect();
    let charges: Vec<Option<&str>> = outcomes
        .iter()
        .map(|outcome| outcome.charge_id.as_deref())
        .collect();
    let declines: Vec<Option<&str>> = outcomes
        .iter()
        .map(|outcome| outcome.decline_code.as_deref())
        .collect();
    sqlx::query_as!(
        Settled,
        r#"update payments
         set status = outcome.status, charge_id = outcome.charge_id,
             decline_code = outcome.decline_code, lease_token = null, last_error = null,
             updated_at = now()
         from unnest($1::uuid[], $2::integer[], $3::uuid[], $4::text[], $5::text[], $6::text[])
            as outcome (order_id, attempt, token, status, charge_id, decline_code)
         where payments.order_id = outcome.order_id and payments.attempt = outcome.attempt
           and payments.lease_token = outcome.token
         returning payments.order_id, payments.attempt, outcome.token as "token!", amount,
                   currency, customer_id, lines, correlation_id, refusal,
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

/// A charge of an open attempt that was found in the provider's books.
#[derive(Clone, Debug)]
pub struct Found {
    pub order_id: Uuid,
    pub attempt: i32,
    pub charge_id: String,
}

/// Records charges of attempts that are still open, whoever has them in hand: the books are the
/// provider's own word. A charger that comes with the same word later finds its lease gone.
pub async fn capture_found(
    connection: &mut PgConnection,
    found: &[Found],
) -> sqlx::Result<Vec<Settled>> {
    let order_ids: Vec<Uuid> = found.iter().map(|found| found.order_id).collect();
    let attempts: Vec<i32> = found.iter().map(|found| found.attempt).collect();
    let charges: Vec<&str> = found.iter().map(|found| &*found.charge_id).collect();
    sqlx::query_as!(
        Settled,
        r#"update payments
         set status = 'captured', charge_id = found.charge_id, lease_token = null,
             last_error = null, updated_at = now()
         from unnest($1::uuid[], $2::integer[], $3::text[])
            as found (order_id, attempt, charge_id)
         where payments.order_id = found.order_id and payments.attempt = found.attempt
           and payments.status in ('pending', 'unknown')
         returning payments.order_id, payments.attempt, $4::uuid as "token!", amount,
                   currency, customer_id, lines, correlation_id, refusal,
                   payment_method, principal_id, request_key, reference"#,
        &order_ids,
        &attempts,
        &charges as &[&str],
        Uuid::nil(),
    )
    .fetch_all(connection)
    .await
}

/// Gives attempts back, due again after their delay; fenced like [`settle`].
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
             status = 'unknown', last_error = later.error, updated_at = now(),
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
    )
    .execute(connection)
    .await?;
    Ok(())
}
