//! Attempts that a charger works on: leased, and their results recorded.
//!
//! The updates name their rows with `order_id = any(array[…])`. With a plain `=`, a plan made while the
//! table is small reads the whole table and looks for each row in the list; the plan is cached and
//! stays when the table has grown. This form can only look up each row of the list in the index. It
//! also locks the rows in the order of the list, so callers sort it: by order and attempt.

use std::time::Duration;

use leases::LeaseRequest;
use serde_json::Value;
use service_kit::UNPROTECTED;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{
    AttemptSituation, AttemptStatus, KeyState, Leased, ProviderCall, ProviderLimits,
};
use crate::store::queues::Floors;

/// Leases due attempts of this status, for each principal those that are due longest. With `skip
/// locked`, concurrent chargers take different rows instead of waiting for the same one. An attempt that was leased before and never
/// settled becomes `unknown`.
///
/// After `limits.resend_max` from its first try the provider may have forgotten the key, and the charge is
/// looked up instead. The same if an operator holds charges after a restore.
pub async fn lease_due(
    connection: &mut PgConnection,
    status: AttemptStatus,
    request: &LeaseRequest,
    floors: &Floors<'_>,
    limits: &ProviderLimits,
) -> sqlx::Result<Vec<Leased>> {
    let rows = sqlx::query_as!(
        LeasedRow,
        r#"with due as materialized (
            select first.order_id, first.attempt, extract(epoch from now() - sent_at) as sent_ago,
                   first_called_at <= now() - make_interval(secs => $3)
                       or first_called_at < $11 as forgotten,
                   first_called_at < $11 as held
            from unnest($4::text[], $5::timestamptz[], $6::bigint[])
                as share (principal, floor, row_max)
            cross join lateral (
                select order_id, attempt, first_called_at, sent_at from payments
                where status = $7 and status in ('pending', 'unknown')
                  and principal = share.principal
                  and due_at > share.floor and due_at <= now()
                order by due_at
                limit share.row_max
                for update skip locked
            ) as first
        )
        update payments
        set lease_token = $1, due_at = clock_timestamp() + make_interval(secs => $2),
            tries = tries + 1, status = case when tries = 0 then $8 else $9 end,
            first_called_at = coalesce(first_called_at, now()),
            sent_at = case when key_state = $10 and forgotten is not true then now()
                      else sent_at end
        from due
        where payments.order_id = any(array[due.order_id]) and payments.attempt = due.attempt
        returning payments.order_id, payments.attempt, principal, lease_token as "token!", amount,
                  currency, payment_method, tries, correlation_id, traceparent,
                  coalesce(provider_reference, payments.order_id::text) as "reference!",
                  key_state as "key_state: KeyState", sent_ago::double precision as sent_ago,
                  rejected_at is not null as "rejected!", coalesce(forgotten, false) as "forgotten!",
                  coalesce(held, false) as "held!""#,
        request.token,
        request.lease.as_secs_f64(),
        limits.resend_max.as_secs_f64(),
        &floors.principals as &[&str],
        &floors.floors,
        &floors.limits,
        status.as_str(),
        AttemptStatus::leased(true).as_str(),
        AttemptStatus::leased(false).as_str(),
        KeyState::Usable.as_str(),
        limits.hold_before
    )
    .fetch_all(connection)
    .await?;
    let rows = rows.into_iter();
    Ok(rows.map(|row| row.leased(request, limits)).collect())
}

/// What the lease returns of each attempt.
struct LeasedRow {
    order_id: Uuid,
    attempt: i32,
    principal: String,
    token: Uuid,
    amount: i64,
    currency: String,
    payment_method: String,
    tries: i32,
    correlation_id: String,
    traceparent: Option<String>,
    reference: String,
    key_state: KeyState,
    sent_ago: Option<f64>,
    rejected: bool,
    forgotten: bool,
    held: bool,
}

impl LeasedRow {
    fn leased(self, request: &LeaseRequest, limits: &ProviderLimits) -> Leased {
        let situation = AttemptSituation {
            rejected: self.rejected,
            forgotten: self.forgotten,
            key_state: self.key_state,
            can_cancel: limits.can_cancel,
        };
        Leased {
            order_id: self.order_id,
            attempt: self.attempt,
            principal: self.principal,
            token: Some(self.token),
            ends: request.ends.clone(),
            amount: self.amount,
            currency: self.currency,
            tries: self.tries,
            correlation_id: self.correlation_id,
            traceparent: self.traceparent,
            reference: self.reference,
            rejected: self.rejected,
            key_state: self.key_state,
            held: self.held,
            sent_ago: self.sent_ago.map(age),
            call: ProviderCall::for_attempt(situation, self.payment_method),
        }
    }
}

/// An age that Postgres computed. Negative after a clock was set back; that counts as now.
pub(super) fn age(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// The result of a try: a definite outcome, or the time of the next try.
#[derive(Clone, Debug)]
pub struct AttemptResult {
    pub order_id: Uuid,
    pub attempt: i32,
    /// `None` in an unprotected program, which records the result without a check.
    pub token: Option<Uuid>,
    pub status: AttemptStatus,
    pub charge_id: Option<String>,
    pub decline_code: Option<String>,
    pub failure_code: Option<String>,
    /// Only for an attempt that stays open.
    pub retry: Option<Retry>,
}

/// The outcome is still unknown: a charger tries again after a delay.
#[derive(Clone, Debug)]
pub struct Retry {
    pub delay: Duration,
    pub error: String,
    /// What the key is good for from now on.
    pub key_state: KeyState,
    /// The provider's ledger has no entry under the key, so the key counts as never sent.
    pub absent: bool,
}

/// An attempt that a statement has settled.
#[derive(Debug)]
pub struct SettledAttempt {
    pub order_id: Uuid,
    pub attempt: i32,
    /// The token of the lease that this result belongs to, if it belongs to one.
    pub token: Option<Uuid>,
    pub amount: i64,
    pub currency: String,
    pub customer_id: String,
    pub lines: Value,
    pub correlation_id: String,
    /// Why fulfilment will not ship the order, if it has rejected it.
    pub rejection_reason: Option<String>,
    pub payment_method: String,
    pub status: AttemptStatus,
    pub principal: String,
    /// Only for a direct charge.
    pub principal_id: Option<String>,
    pub request_key: Option<String>,
    pub reference: Option<String>,
}

/// Ends the leases of the attempts that still have this lease token, and returns those that are
/// settled. Other results are stale: the lease expired, and the attempt belongs to another charger or
/// is settled.
pub async fn record(
    connection: &mut PgConnection,
    results: &[AttemptResult],
) -> sqlx::Result<Vec<SettledAttempt>> {
    let column = ResultColumns::of(results);
    let recorded = sqlx::query_as!(
        SettledAttempt,
        r#"update payments
         set status = result.status, charge_id = result.charge_id,
             decline_code = result.decline_code, failure_code = result.failure_code,
             lease_token = null, last_error = result.error,
             key_state = coalesce(result.key_state, payments.key_state),
             due_at = case when result.delay is null then due_at
                      else clock_timestamp() + make_interval(secs => result.delay) end,
             first_called_at = case when result.absent then null else first_called_at end,
             updated_at = now()
         from unnest($1::uuid[], $2::integer[], $3::uuid[], $4::text[], $5::text[], $6::text[],
                     $7::double precision[], $8::text[], $9::boolean[], $10::text[], $11::text[])
            as result (order_id, attempt, token, status, charge_id, decline_code, delay, error,
                       absent, failure_code, key_state)
         where payments.order_id = any(array[result.order_id])
           and payments.attempt = result.attempt
           and (payments.lease_token = result.token or $12)
         returning payments.order_id, payments.attempt, result.token as "token?", amount,
                   currency, customer_id, lines, correlation_id, rejection_reason, payment_method,
                   payments.status as "status: AttemptStatus", principal, principal_id,
                   request_key, reference"#,
        &column.order_ids,
        &column.attempts,
        &column.tokens as &[Option<Uuid>],
        &column.statuses as &[&str],
        &column.charges as &[Option<&str>],
        &column.declines as &[Option<&str>],
        &column.delays as &[Option<f64>],
        &column.errors as &[Option<&str>],
        &column.absences,
        &column.failures as &[Option<&str>],
        &column.key_states as &[Option<&str>],
        UNPROTECTED,
    )
    .fetch_all(connection)
    .await?;
    let settled = recorded.into_iter().filter(|it| !it.status.is_open());
    Ok(settled.collect())
}

/// Results by column.
#[derive(Default)]
struct ResultColumns<'a> {
    order_ids: Vec<Uuid>,
    attempts: Vec<i32>,
    tokens: Vec<Option<Uuid>>,
    statuses: Vec<&'a str>,
    charges: Vec<Option<&'a str>>,
    declines: Vec<Option<&'a str>>,
    delays: Vec<Option<f64>>,
    errors: Vec<Option<&'a str>>,
    absences: Vec<bool>,
    failures: Vec<Option<&'a str>>,
    key_states: Vec<Option<&'a str>>,
}

impl<'a> ResultColumns<'a> {
    fn of(results: &'a [AttemptResult]) -> Self {
        let mut columns = Self::default();
        for result in results {
            let retry = result.retry.as_ref();
            columns.order_ids.push(result.order_id);
            columns.attempts.push(result.attempt);
            columns.tokens.push(result.token);
            columns.statuses.push(result.status.as_str());
            columns.charges.push(result.charge_id.as_deref());
            columns.declines.push(result.decline_code.as_deref());
            columns
                .delays
                .push(retry.map(|retry| retry.delay.as_secs_f64()));
            columns.errors.push(retry.map(|retry| &*retry.error));
            columns.absences.push(retry.is_some_and(|it| it.absent));
            columns.failures.push(result.failure_code.as_deref());
            let key_state = retry.map(|retry| retry.key_state.as_str());
            columns.key_states.push(key_state);
        }
        columns
    }
}

/// A charge of an open attempt that the reconciler found in the provider's books.
#[derive(Clone, Debug)]
pub struct FoundCharge {
    pub order_id: Uuid,
    pub attempt: i32,
    pub charge_id: String,
}

/// Captures attempts that are still open, even if a charger holds their lease: the provider's books are
/// authoritative. The charger's result is then stale. The rows are locked first, in the order of the
/// list: a condition on the status in the update itself would let a plan read a partial index instead.
pub async fn capture_found(
    connection: &mut PgConnection,
    found: &[FoundCharge],
) -> sqlx::Result<Vec<SettledAttempt>> {
    let order_ids: Vec<Uuid> = found.iter().map(|found| found.order_id).collect();
    let attempts: Vec<i32> = found.iter().map(|found| found.attempt).collect();
    let charges: Vec<&str> = found.iter().map(|found| &*found.charge_id).collect();
    sqlx::query_as!(
        SettledAttempt,
        r#"with found as materialized (
            select key.order_id, key.attempt, key.charge_id
            from unnest($1::uuid[], $2::integer[], $3::text[]) as key (order_id, attempt, charge_id)
            cross join lateral (
                select from payments
                where payments.order_id = key.order_id and payments.attempt = key.attempt
                  and status in ('pending', 'unknown')
                for update
            ) as open
         )
         update payments
         set status = $4, charge_id = found.charge_id, lease_token = null,
             last_error = null, updated_at = now()
         from found
         where payments.order_id = any(array[found.order_id]) and payments.attempt = found.attempt
         returning payments.order_id, payments.attempt, null::uuid as "token?", amount,
                   currency, customer_id, lines, correlation_id, rejection_reason, payment_method,
                   status as "status: AttemptStatus", principal, principal_id, request_key,
                   reference"#,
        &order_ids,
        &attempts,
        &charges as &[&str],
        AttemptStatus::Captured.as_str(),
    )
    .fetch_all(connection)
    .await
}
