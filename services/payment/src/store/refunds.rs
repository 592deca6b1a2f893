//! The table of refunds: opened, leased, settled, postponed.

use std::time::Duration;

use leases::LeaseRequest;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{Leased, Postponement, ProviderCall, RefundStatus};

/// A refund to store before the provider is called.
#[derive(Clone, Debug)]
pub struct NewRefund {
    pub charge_id: String,
    pub key: String,
    pub order_id: Uuid,
    pub attempt: i32,
    pub amount: i64,
    pub currency: String,
    pub reason: String,
    pub correlation_id: String,
    pub traceparent: Option<String>,
}

/// Stores refunds and returns the number of new ones. A charge never gets a second refund.
pub async fn open(connection: &mut PgConnection, refunds: &[NewRefund]) -> sqlx::Result<u64> {
    let charges: Vec<&str> = refunds.iter().map(|new| &*new.charge_id).collect();
    let keys: Vec<&str> = refunds.iter().map(|new| &*new.key).collect();
    let order_ids: Vec<Uuid> = refunds.iter().map(|new| new.order_id).collect();
    let attempts: Vec<i32> = refunds.iter().map(|new| new.attempt).collect();
    let amounts: Vec<i64> = refunds.iter().map(|new| new.amount).collect();
    let currencies: Vec<&str> = refunds.iter().map(|new| &*new.currency).collect();
    let reasons: Vec<&str> = refunds.iter().map(|new| &*new.reason).collect();
    let correlations: Vec<&str> = refunds.iter().map(|new| &*new.correlation_id).collect();
    let traces: Vec<Option<&str>> = refunds
        .iter()
        .map(|new| new.traceparent.as_deref())
        .collect();
    let opened = sqlx::query!(
        "insert into refunds (charge_id, key, order_id, attempt, amount, currency, reason,
                              correlation_id, traceparent, status)
         select *, $10 from unnest($1::text[], $2::text[], $3::uuid[], $4::integer[], $5::bigint[],
                              $6::text[], $7::text[], $8::text[], $9::text[])
         on conflict (charge_id) do nothing",
        &charges as &[&str],
        &keys as &[&str],
        &order_ids,
        &attempts,
        &amounts,
        &currencies as &[&str],
        &reasons as &[&str],
        &correlations as &[&str],
        &traces as &[Option<&str>],
        RefundStatus::Pending.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(opened.rows_affected())
}

/// Leases due refunds, as `payments::lease_due` does for attempts.
pub async fn lease_due(
    connection: &mut PgConnection,
    request: LeaseRequest,
    resend_max: Duration,
) -> sqlx::Result<Vec<Leased>> {
    let rows = sqlx::query!(
        r#"with due as (
            select charge_id, first_called_at <= now() - make_interval(secs => $4) as forgotten
            from refunds
            where status in ('pending', 'unknown') and due_at <= now()
            order by due_at
            limit $3
            for update skip locked
        )
        update refunds
        set lease_token = $1, due_at = now() + make_interval(secs => $2), tries = tries + 1,
            status = case when tries = 0 then $5 else $6 end,
            first_called_at = coalesce(first_called_at, now())
        from due
        where refunds.charge_id = due.charge_id
        returning refunds.charge_id, key, order_id, attempt, lease_token as "token!", amount,
                  currency, tries, correlation_id, traceparent,
                  coalesce(forgotten, false) as "forgotten!""#,
        request.token,
        request.lease.as_secs_f64(),
        request.limit,
        resend_max.as_secs_f64(),
        RefundStatus::leased(true).as_str(),
        RefundStatus::leased(false).as_str()
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
        call: ProviderCall::for_refund(row.forgotten, row.charge_id, row.key),
    });
    Ok(leased.collect())
}

/// A refund that the provider confirmed.
#[derive(Clone, Debug)]
pub struct RefundSettlement {
    pub key: String,
    pub token: Uuid,
    pub status: RefundStatus,
    pub refund_id: String,
}

/// A refund that a statement has settled.
#[derive(Debug)]
pub struct SettledRefund {
    pub key: String,
    pub charge_id: String,
    pub refund_id: String,
    pub order_id: Uuid,
    pub attempt: i32,
    pub amount: i64,
    pub currency: String,
    pub reason: String,
    pub correlation_id: String,
}

/// Settles the refunds that still have this lease token, and returns them. Other results are stale.
pub async fn settle(
    connection: &mut PgConnection,
    outcomes: &[RefundSettlement],
) -> sqlx::Result<Vec<SettledRefund>> {
    let keys: Vec<&str> = outcomes.iter().map(|outcome| &*outcome.key).collect();
    let tokens: Vec<Uuid> = outcomes.iter().map(|outcome| outcome.token).collect();
    let ids: Vec<&str> = outcomes.iter().map(|outcome| &*outcome.refund_id).collect();
    let statuses: Vec<&str> = outcomes
        .iter()
        .map(|outcome| outcome.status.as_str())
        .collect();
    sqlx::query_as!(
        SettledRefund,
        r#"update refunds
         set status = outcome.status, refund_id = outcome.refund_id, lease_token = null,
             last_error = null, updated_at = now()
         from unnest($1::text[], $2::uuid[], $3::text[], $4::text[])
            as outcome (key, token, refund_id, status)
         where refunds.key = outcome.key and refunds.lease_token = outcome.token
         returning refunds.key, charge_id, outcome.refund_id as "refund_id!", order_id, attempt,
                   amount, currency, reason, correlation_id"#,
        &keys as &[&str],
        &tokens,
        &ids as &[&str],
        &statuses as &[&str],
    )
    .fetch_all(connection)
    .await
}

/// Settles a refund that was found in the provider's books, even if a charger holds its lease.
pub async fn settle_found(
    connection: &mut PgConnection,
    charge_id: &str,
    refund_id: &str,
) -> sqlx::Result<Option<SettledRefund>> {
    sqlx::query_as!(
        SettledRefund,
        r#"update refunds
         set status = $3, refund_id = $2, lease_token = null, last_error = null,
             updated_at = now()
         where charge_id = $1 and status in ('pending', 'unknown')
         returning key, charge_id, refund_id as "refund_id!", order_id, attempt, amount, currency,
                   reason, correlation_id"#,
        charge_id,
        refund_id,
        RefundStatus::Refunded.as_str()
    )
    .fetch_optional(connection)
    .await
}

/// Ends the leases of refunds, which are due again after their delay. Checks the lease token, as
/// [`settle`] does.
pub async fn postpone(
    connection: &mut PgConnection,
    postponements: &[Postponement<'_>],
) -> sqlx::Result<()> {
    let keys: Vec<String> = postponements.iter().map(|p| p.leased.key()).collect();
    let tokens: Vec<Uuid> = postponements.iter().map(|p| p.leased.token).collect();
    let delays: Vec<f64> = postponements
        .iter()
        .map(|p| p.delay.as_secs_f64())
        .collect();
    let errors: Vec<&str> = postponements.iter().map(|p| p.error).collect();
    let absences: Vec<bool> = postponements.iter().map(|p| p.absent).collect();
    sqlx::query!(
        "update refunds
         set due_at = now() + make_interval(secs => later.delay), lease_token = null,
             status = $6, last_error = later.error, updated_at = now(),
             first_called_at = case when later.absent then null else first_called_at end
         from unnest($1::text[], $2::uuid[], $3::double precision[], $4::text[], $5::boolean[])
            as later (key, token, delay, error, absent)
         where refunds.key = later.key and refunds.lease_token = later.token",
        &keys,
        &tokens,
        &delays,
        &errors as &[&str],
        &absences,
        RefundStatus::Unknown.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(())
}
