//! The table of refunds: opened, leased, and their results recorded. The updates name their rows as
//! those of [`payments`](super::payments) do, and callers sort them by key.

use chrono::{DateTime, Utc};
use leases::LeaseRequest;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::books::Charge;
use crate::domain::provider_key::{orphan_refund_key, parse_charge_key};
use crate::domain::{KeyState, Leased, ProviderCall, ProviderLimits, RefundStatus};
use crate::store::payments::{Retry, age};
use crate::store::queues::Floors;

/// A refund to store before the provider is called.
#[derive(Clone, Debug)]
pub struct NewRefund {
    pub charge_id: String,
    pub key: String,
    pub order_id: Uuid,
    pub attempt: i32,
    /// Empty if it is not known.
    pub principal: String,
    pub amount: i64,
    pub currency: String,
    pub reason: String,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    /// What was paid, as the provider knows it. `None`: the order id.
    pub reference: Option<String>,
    /// When the refund was first asked for. The provider may have seen the key since then: this
    /// database may have been restored to an older state. `None`: now.
    pub requested_at: Option<DateTime<Utc>>,
    /// The refund in the provider's books, if the charge was refunded manually.
    pub made_by_hand: Option<String>,
}

impl NewRefund {
    /// The refund of a charge that no attempt owns.
    pub fn of_orphan(charge: &Charge, reason: &str) -> Self {
        let named = parse_charge_key(&charge.idempotency_key);
        let order_id = charge.reference.parse().ok();
        Self {
            charge_id: charge.id.clone(),
            key: orphan_refund_key(&charge.id),
            order_id: order_id.or(named.map(|(id, _)| id)).unwrap_or(Uuid::nil()),
            attempt: named.map_or(0, |(_, attempt)| attempt),
            principal: String::new(),
            amount: charge.amount,
            currency: charge.currency.clone(),
            reason: reason.to_owned(),
            correlation_id: format!("reconciler-{}", charge.id),
            traceparent: None,
            reference: Some(charge.reference.clone()),
            requested_at: None,
            made_by_hand: None,
        }
    }
}

/// Stores refunds and returns the number of new ones. A charge never gets a second refund.
pub async fn open(connection: &mut PgConnection, refunds: &[NewRefund]) -> sqlx::Result<u64> {
    // Sorted, so that two transactions cannot wait for each other.
    let mut refunds: Vec<&NewRefund> = refunds.iter().collect();
    refunds.sort_unstable_by(|a, b| a.charge_id.cmp(&b.charge_id));
    let column = NewColumns::of(&refunds);
    let opened = sqlx::query!(
        "insert into refunds (charge_id, key, order_id, attempt, amount, currency, reason,
                              correlation_id, traceparent, principal, provider_reference,
                              first_called_at, refund_id, status)
         select * from unnest($1::text[], $2::text[], $3::uuid[], $4::integer[], $5::bigint[],
                              $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
                              $11::text[], $12::timestamptz[], $13::text[], $14::text[])
         on conflict (charge_id) do nothing",
        &column.charges as &[&str],
        &column.keys as &[&str],
        &column.order_ids,
        &column.attempts,
        &column.amounts,
        &column.currencies as &[&str],
        &column.reasons as &[&str],
        &column.correlations as &[&str],
        &column.traces as &[Option<&str>],
        &column.principals as &[&str],
        &column.references as &[Option<&str>],
        &column.first_calls as &[Option<DateTime<Utc>>],
        &column.made_by_hand as &[Option<&str>],
        &column.statuses as &[&str],
    )
    .execute(connection)
    .await?;
    Ok(opened.rows_affected())
}

/// New refunds by column.
#[derive(Default)]
struct NewColumns<'a> {
    charges: Vec<&'a str>,
    keys: Vec<&'a str>,
    order_ids: Vec<Uuid>,
    attempts: Vec<i32>,
    amounts: Vec<i64>,
    currencies: Vec<&'a str>,
    reasons: Vec<&'a str>,
    correlations: Vec<&'a str>,
    traces: Vec<Option<&'a str>>,
    principals: Vec<&'a str>,
    references: Vec<Option<&'a str>>,
    first_calls: Vec<Option<DateTime<Utc>>>,
    made_by_hand: Vec<Option<&'a str>>,
    statuses: Vec<&'a str>,
}

impl<'a> NewColumns<'a> {
    fn of(refunds: &[&'a NewRefund]) -> Self {
        let mut columns = Self::default();
        for new in refunds {
            let status = match new.made_by_hand {
                Some(_) => RefundStatus::Refunded,
                None => RefundStatus::Pending,
            };
            columns.charges.push(&new.charge_id);
            columns.keys.push(&new.key);
            columns.order_ids.push(new.order_id);
            columns.attempts.push(new.attempt);
            columns.amounts.push(new.amount);
            columns.currencies.push(&new.currency);
            columns.reasons.push(&new.reason);
            columns.correlations.push(&new.correlation_id);
            columns.traces.push(new.traceparent.as_deref());
            columns.principals.push(&new.principal);
            columns.references.push(new.reference.as_deref());
            columns.first_calls.push(new.requested_at);
            columns.made_by_hand.push(new.made_by_hand.as_deref());
            columns.statuses.push(status.as_str());
        }
        columns
    }
}

/// Leases due refunds, as `payments::lease_due` does for attempts.
pub async fn lease_due(
    connection: &mut PgConnection,
    request: &LeaseRequest,
    floors: &Floors<'_>,
    limits: &ProviderLimits,
) -> sqlx::Result<Vec<Leased>> {
    let rows = sqlx::query!(
        r#"with due as materialized (
            select first.charge_id, extract(epoch from now() - sent_at) as sent_ago,
                   first_called_at <= now() - make_interval(secs => $3) as forgotten
            from unnest($4::text[], $5::timestamptz[], $6::bigint[])
                as share (principal, floor, row_max)
            cross join lateral (
                select charge_id, first_called_at, sent_at from refunds
                where status in ('pending', 'unknown') and principal = share.principal
                  and due_at > share.floor and due_at <= now()
                order by due_at
                limit share.row_max
                for update skip locked
            ) as first
        )
        update refunds
        set lease_token = $1, due_at = clock_timestamp() + make_interval(secs => $2),
            tries = tries + 1, status = case when tries = 0 then $7 else $8 end,
            first_called_at = coalesce(first_called_at, now()),
            sent_at = case when key_state = $9 and forgotten is not true then now()
                      else sent_at end
        from due
        where refunds.charge_id = any(array[due.charge_id])
        returning refunds.charge_id, key, order_id, attempt, principal, lease_token as "token!",
                  amount, currency, tries, correlation_id, traceparent,
                  coalesce(provider_reference, order_id::text) as "reference!",
                  key_state as "key_state: KeyState", sent_ago::double precision as sent_ago,
                  coalesce(forgotten, false) as "forgotten!""#,
        request.token,
        request.lease.as_secs_f64(),
        limits.resend_max.as_secs_f64(),
        &floors.principals as &[&str],
        &floors.floors,
        &floors.limits,
        RefundStatus::leased(true).as_str(),
        RefundStatus::leased(false).as_str(),
        KeyState::Usable.as_str()
    )
    .fetch_all(connection)
    .await?;
    let leased = rows.into_iter().map(|row| Leased {
        order_id: row.order_id,
        attempt: row.attempt,
        principal: row.principal,
        token: Some(row.token),
        ends: request.ends.clone(),
        amount: row.amount,
        currency: row.currency,
        tries: row.tries,
        correlation_id: row.correlation_id,
        traceparent: row.traceparent,
        reference: row.reference,
        rejected: false,
        key_state: row.key_state,
        held: false,
        sent_ago: row.sent_ago.map(age),
        call: ProviderCall::for_refund(row.forgotten, row.key_state, row.charge_id, row.key),
    });
    Ok(leased.collect())
}

/// The result of a try: the refund is confirmed, or is tried again.
#[derive(Clone, Debug)]
pub struct RefundResult {
    pub key: String,
    pub token: Option<Uuid>,
    pub status: RefundStatus,
    pub refund_id: Option<String>,
    pub failure_code: Option<String>,
    /// Only for a refund that stays open.
    pub retry: Option<Retry>,
}

/// A refund that a statement has settled.
#[derive(Debug)]
pub struct SettledRefund {
    pub key: String,
    pub charge_id: String,
    pub status: RefundStatus,
    pub refund_id: Option<String>,
    pub order_id: Uuid,
    pub attempt: i32,
    pub amount: i64,
    pub currency: String,
    pub reason: String,
    /// Empty for an orphan charge, and if an old event did not name the customer.
    pub customer_id: String,
    pub correlation_id: String,
}

/// Ends the leases of the refunds that still have this lease token, and returns those that are
/// settled. Other results are stale.
pub async fn record(
    connection: &mut PgConnection,
    results: &[RefundResult],
) -> sqlx::Result<Vec<SettledRefund>> {
    let retries = || results.iter().map(|result| result.retry.as_ref());
    let keys: Vec<&str> = results.iter().map(|result| &*result.key).collect();
    let tokens: Vec<Option<Uuid>> = results.iter().map(|result| result.token).collect();
    let ids: Vec<Option<&str>> = results.iter().map(|it| it.refund_id.as_deref()).collect();
    let statuses: Vec<&str> = results
        .iter()
        .map(|result| result.status.as_str())
        .collect();
    let delays: Vec<Option<f64>> = retries()
        .map(|retry| retry.map(|retry| retry.delay.as_secs_f64()))
        .collect();
    let errors: Vec<Option<&str>> = retries()
        .map(|retry| retry.map(|retry| &*retry.error))
        .collect();
    let absences: Vec<bool> = retries()
        .map(|retry| retry.is_some_and(|retry| retry.absent))
        .collect();
    let key_states: Vec<Option<&str>> = retries()
        .map(|retry| retry.map(|retry| retry.key_state.as_str()))
        .collect();
    let failures = results.iter().map(|it| it.failure_code.as_deref());
    let failures: Vec<Option<&str>> = failures.collect();
    let recorded = sqlx::query_as!(
        SettledRefund,
        r#"update refunds
         set status = result.status, refund_id = result.refund_id, lease_token = null,
             last_error = result.error, failure_code = result.failure_code,
             key_state = coalesce(result.key_state, refunds.key_state),
             due_at = case when result.delay is null then due_at
                      else clock_timestamp() + make_interval(secs => result.delay) end,
             first_called_at = case when result.absent then null else first_called_at end,
             updated_at = now()
         from unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::double precision[],
                     $6::text[], $7::boolean[], $8::text[], $9::text[])
            as result (key, token, refund_id, status, delay, error, absent, failure_code, key_state)
         where refunds.key = any(array[result.key]) and refunds.lease_token = result.token
         returning refunds.key, charge_id, refunds.status as "status: RefundStatus",
                   refunds.refund_id, order_id, attempt, amount, currency, reason, correlation_id,
                   coalesce((select customer_id from payments
                             where payments.order_id = refunds.order_id
                               and payments.attempt = refunds.attempt), '') as "customer_id!""#,
        &keys as &[&str],
        &tokens as &[Option<Uuid>],
        &ids as &[Option<&str>],
        &statuses as &[&str],
        &delays as &[Option<f64>],
        &errors as &[Option<&str>],
        &absences,
        &failures as &[Option<&str>],
        &key_states as &[Option<&str>],
    )
    .fetch_all(connection)
    .await?;
    let settled = recorded.into_iter().filter(|it| !it.status.is_open());
    Ok(settled.collect())
}

/// A refund that the reconciler found in the provider's books.
#[derive(Clone, Debug)]
pub struct FoundRefund {
    pub key: String,
    pub refund_id: String,
}

/// Settles refunds that are still open, even if a charger holds their lease.
pub async fn settle_found(
    connection: &mut PgConnection,
    found: &[FoundRefund],
) -> sqlx::Result<Vec<SettledRefund>> {
    let keys: Vec<&str> = found.iter().map(|found| &*found.key).collect();
    let ids: Vec<&str> = found.iter().map(|found| &*found.refund_id).collect();
    sqlx::query_as!(
        SettledRefund,
        r#"with found as materialized (
            select listed.key, listed.refund_id
            from unnest($1::text[], $2::text[]) as listed (key, refund_id)
            cross join lateral (
                select from refunds
                where refunds.key = listed.key and status in ('pending', 'unknown')
                for update
            ) as open
         )
         update refunds
         set status = $3, refund_id = found.refund_id, lease_token = null, last_error = null,
             updated_at = now()
         from found
         where refunds.key = any(array[found.key])
         returning refunds.key, charge_id, refunds.status as "status: RefundStatus",
                   refunds.refund_id, order_id, attempt, amount, currency, reason, correlation_id,
                   coalesce((select customer_id from payments
                             where payments.order_id = refunds.order_id
                               and payments.attempt = refunds.attempt), '') as "customer_id!""#,
        &keys as &[&str],
        &ids as &[&str],
        RefundStatus::Refunded.as_str()
    )
    .fetch_all(connection)
    .await
}
