//! The table of payment attempts.

use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

/// The intent to charge.
pub struct NewAttempt {
    pub order_id: Uuid,
    pub attempt: i32,
    pub amount: i64,
    pub currency: &'static str,
    pub payment_method: String,
    pub lines: Value,
    pub correlation_id: String,
    pub traceparent: Option<String>,
}

/// Stores attempts; one that is there already stays as it is.
pub async fn open(connection: &mut PgConnection, attempts: &[NewAttempt]) -> sqlx::Result<()> {
    let order_ids: Vec<Uuid> = attempts.iter().map(|new| new.order_id).collect();
    let numbers: Vec<i32> = attempts.iter().map(|new| new.attempt).collect();
    let amounts: Vec<i64> = attempts.iter().map(|new| new.amount).collect();
    let currencies: Vec<&str> = attempts.iter().map(|new| new.currency).collect();
    let methods: Vec<&str> = attempts.iter().map(|new| &*new.payment_method).collect();
    let lines: Vec<Value> = attempts.iter().map(|new| new.lines.clone()).collect();
    let correlations: Vec<&str> = attempts.iter().map(|new| &*new.correlation_id).collect();
    let traces: Vec<Option<&str>> = attempts
        .iter()
        .map(|new| new.traceparent.as_deref())
        .collect();
    sqlx::query!(
        "insert into payments (order_id, attempt, amount, currency, payment_method, lines,
                               correlation_id, traceparent)
         select * from unnest($1::uuid[], $2::integer[], $3::bigint[], $4::text[], $5::text[],
                              $6::jsonb[], $7::text[], $8::text[])
         on conflict do nothing",
        &order_ids,
        &numbers,
        &amounts,
        &currencies as &[&str],
        &methods as &[&str],
        &lines,
        &correlations as &[&str],
        &traces as &[Option<&str>],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// An attempt that this process may work on until its lease runs out.
#[derive(Clone, Debug)]
pub struct Leased {
    pub order_id: Uuid,
    pub attempt: i32,
    pub token: Uuid,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub tries: i32,
    pub correlation_id: String,
    pub traceparent: Option<String>,
}

/// Leases attempts that are due, the longest due first. An attempt that was first sent longer than
/// `resend_max` ago is left alone: the provider may have forgotten its key. `skip locked`: chargers side by side take
/// different rows instead of queueing for the same one.
pub async fn lease_due(
    connection: &mut PgConnection,
    token: Uuid,
    lease: Duration,
    resend_max: Duration,
    limit: i64,
) -> sqlx::Result<Vec<Leased>> {
    sqlx::query_as!(
        Leased,
        r#"with due as (
            select order_id, attempt from payments
            where status = 'pending' and due_at <= now()
              and (first_called_at is null
                   or first_called_at > now() - make_interval(secs => $4))
            order by due_at
            limit $3
            for update skip locked
        )
        update payments
        set lease_token = $1, due_at = now() + make_interval(secs => $2), tries = tries + 1,
            first_called_at = coalesce(first_called_at, now())
        from due
        where payments.order_id = due.order_id and payments.attempt = due.attempt
        returning payments.order_id, payments.attempt, lease_token as "token!", amount, currency,
                  payment_method, tries, correlation_id, traceparent"#,
        token,
        lease.as_secs_f64(),
        limit,
        resend_max.as_secs_f64()
    )
    .fetch_all(connection)
    .await
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
    pub lines: Value,
    pub correlation_id: String,
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
                   currency, lines, correlation_id"#,
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

/// An attempt whose outcome was not told: to be tried again, with the same key, after a while.
#[derive(Clone, Debug)]
pub struct Postponement {
    pub order_id: Uuid,
    pub attempt: i32,
    pub token: Uuid,
    pub delay: Duration,
    pub error: String,
}

/// Gives attempts back, due again after their delay; fenced like [`settle`].
pub async fn postpone(
    connection: &mut PgConnection,
    postponements: &[Postponement],
) -> sqlx::Result<()> {
    let order_ids: Vec<Uuid> = postponements.iter().map(|p| p.order_id).collect();
    let attempts: Vec<i32> = postponements.iter().map(|p| p.attempt).collect();
    let tokens: Vec<Uuid> = postponements.iter().map(|p| p.token).collect();
    let delays: Vec<f64> = postponements
        .iter()
        .map(|p| p.delay.as_secs_f64())
        .collect();
    let errors: Vec<&str> = postponements.iter().map(|p| p.error.as_str()).collect();
    sqlx::query!(
        "update payments
         set due_at = now() + make_interval(secs => later.delay), lease_token = null,
             last_error = later.error, updated_at = now()
         from unnest($1::uuid[], $2::integer[], $3::uuid[], $4::double precision[], $5::text[])
            as later (order_id, attempt, token, delay, error)
         where payments.order_id = later.order_id and payments.attempt = later.attempt
           and payments.lease_token = later.token",
        &order_ids,
        &attempts,
        &tokens,
        &delays,
        &errors as &[&str],
    )
    .execute(connection)
    .await?;
    Ok(())
}
