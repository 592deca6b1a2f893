//! The log of mails: one row per mail.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use money::Money;
use serde_json::Value;
use service_kit::UNPROTECTED;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{MailType, State, Status};

/// The table of this module.
pub const TABLE: &str = "receipts";

/// A mail to send. Event id and mail type identify it; its order, which the event belongs to, finds it.
pub struct NewMail {
    pub event_id: Uuid,
    pub mail_type: MailType,
    /// When the event happened.
    pub event_time: DateTime<Utc>,
    /// Pending, or held if the event is too old.
    pub status: Status,
    pub order_id: Uuid,
    pub attempt: i32,
    pub recipient: String,
    pub amount: Option<Money>,
    pub lines: Value,
    pub reason: Option<String>,
    pub correlation_id: String,
    pub traceparent: Option<String>,
}

/// A lease for mails that are logged now.
pub struct NewLease<'a> {
    /// `None` in an unprotected program.
    pub token: Option<Uuid>,
    pub lease: Duration,
    /// Which of the mails to lease.
    pub mails: &'a [bool],
}

/// Logs mails to send. A mail that is already logged stays unchanged. Returns when each leased mail was logged,
/// by event and type. Like [`lease_due`], the lease counts the try as one in doubt.
pub async fn log(
    connection: &mut PgConnection,
    new: &[NewMail],
    lease: Option<&NewLease<'_>>,
) -> sqlx::Result<HashMap<(Uuid, String), DateTime<Utc>>> {
    let has_slot = lease.map_or_else(|| vec![false; new.len()], |it| it.mails.to_vec());
    let event_ids: Vec<Uuid> = new.iter().map(|new| new.event_id).collect();
    let mail_types: Vec<&str> = new.iter().map(|new| new.mail_type.as_str()).collect();
    let event_times: Vec<DateTime<Utc>> = new.iter().map(|new| new.event_time).collect();
    let statuses: Vec<&str> = new.iter().map(|new| new.status.as_str()).collect();
    let order_ids: Vec<Uuid> = new.iter().map(|new| new.order_id).collect();
    let attempts: Vec<i32> = new.iter().map(|new| new.attempt).collect();
    let recipients: Vec<&str> = new.iter().map(|new| &*new.recipient).collect();
    let amounts: Vec<Option<i64>> = new
        .iter()
        .map(|new| new.amount.map(Money::amount))
        .collect();
    let currencies: Vec<Option<&str>> = new
        .iter()
        .map(|new| new.amount.map(|amount| amount.currency().code()))
        .collect();
    let lines: Vec<Value> = new.iter().map(|new| new.lines.clone()).collect();
    let reasons: Vec<Option<&str>> = new.iter().map(|new| new.reason.as_deref()).collect();
    let correlations: Vec<&str> = new.iter().map(|new| &*new.correlation_id).collect();
    let traces: Vec<Option<&str>> = new.iter().map(|new| new.traceparent.as_deref()).collect();
    let logged = sqlx::query!(
        r#"insert into receipts (event_id, mail_type, order_id, attempt, recipient, amount, currency,
                               lines, reason, correlation_id, traceparent, status, event_time,
                               lease_token, due_at, tries, tries_in_doubt)
         select event_id, mail_type, order_id, attempt, recipient, amount, currency, lines, reason,
                correlation_id, traceparent, status, event_time,
                case when has_slot then $15::uuid end,
                case when has_slot then clock_timestamp() + make_interval(secs => $16)
                     else clock_timestamp() end,
                case when has_slot then 1 else 0 end,
                case when has_slot then 1 else 0 end
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::integer[], $5::text[], $6::bigint[],
                     $7::text[], $8::jsonb[], $9::text[], $10::text[], $11::text[], $12::text[],
                     $13::timestamptz[], $14::boolean[])
            as new (event_id, mail_type, order_id, attempt, recipient, amount, currency, lines,
                    reason, correlation_id, traceparent, status, event_time, has_slot)
         on conflict do nothing
         returning event_id, mail_type, created_at, tries > 0 as "is_leased!""#,
        &event_ids,
        &mail_types as &[&str],
        &order_ids,
        &attempts,
        &recipients as &[&str],
        &amounts as &[Option<i64>],
        &currencies as &[Option<&str>],
        &lines,
        &reasons as &[Option<&str>],
        &correlations as &[&str],
        &traces as &[Option<&str>],
        &statuses as &[&str],
        &event_times,
        &has_slot,
        lease.and_then(|it| it.token),
        lease.map_or(0.0, |it| it.lease.as_secs_f64()),
    )
    .fetch_all(connection)
    .await?;
    let leased = logged.into_iter().filter(|row| row.is_leased);
    let times = leased.map(|row| ((row.event_id, row.mail_type), row.created_at));
    Ok(times.collect())
}

/// The recipient of each order's latest mail. Orders without a mail are left out.
pub async fn recipients(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, String>> {
    let rows = sqlx::query!(
        "select mail.order_id, mail.recipient
         from unnest($1::uuid[]) as listed (order_id)
            cross join lateral (
                select receipts.order_id, recipient from receipts
                where receipts.order_id = listed.order_id
                order by attempt desc limit 1
            ) as mail",
        order_ids,
    )
    .fetch_all(connection)
    .await?;
    let pairs = rows.into_iter().map(|row| (row.order_id, row.recipient));
    Ok(pairs.collect())
}

/// A mail that this process may send until its lease expires.
#[derive(Clone, Debug)]
pub struct Leased {
    pub event_id: Uuid,
    pub mail_type: String,
    /// The lease token. `None` in an unprotected program.
    pub token: Option<Uuid>,
    pub order_id: Uuid,
    pub attempt: i32,
    pub recipient: String,
    pub amount: Option<i64>,
    pub currency: Option<String>,
    pub lines: Value,
    pub reason: Option<String>,
    pub tries: i32,
    /// Tries that may have delivered it, this one included.
    pub tries_in_doubt: i32,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    pub created_at: DateTime<Utc>,
}

impl NewMail {
    /// The first try of a mail that was logged leased.
    pub fn leased(self, token: Option<Uuid>, logged_at: DateTime<Utc>) -> Leased {
        Leased {
            event_id: self.event_id,
            mail_type: self.mail_type.as_str().to_owned(),
            token,
            order_id: self.order_id,
            attempt: self.attempt,
            recipient: self.recipient,
            amount: self.amount.map(Money::amount),
            currency: self.amount.map(|it| it.currency().code().to_owned()),
            lines: self.lines,
            reason: self.reason,
            tries: 1,
            tries_in_doubt: 1,
            correlation_id: self.correlation_id,
            traceparent: self.traceparent,
            created_at: logged_at,
        }
    }
}

impl Leased {
    /// The next try of a mail that is still pending, for an unprotected program. A protected one leases the mail again instead.
    pub fn next_try(&self, state: State) -> Self {
        Self {
            tries: self.tries + 1,
            tries_in_doubt: state.tries_in_doubt + 1,
            ..self.clone()
        }
    }

    /// The state of the mail while it is leased. Only a pending mail can be leased.
    pub fn state(&self) -> State {
        State {
            status: Status::Pending,
            tries_in_doubt: self.tries_in_doubt,
        }
    }
}

/// What one step took from the queue.
#[derive(Debug, Default)]
pub struct Taken {
    pub leased: Vec<Leased>,
    /// The orders of mails that reached the limit of tries in doubt and whose last lease expired
    /// without a result. These mails are closed.
    pub given_up: Vec<Uuid>,
    /// The orders of mails whose event became too old while they waited. These mails are held.
    pub held: Vec<Uuid>,
}

/// How to take mails from the queue.
#[derive(Clone, Copy, Debug)]
pub struct Lease<'a> {
    pub token: Uuid,
    pub lease: Duration,
    pub limit: i64,
    /// No mail is due before this time. `None` reads the queue from its beginning.
    pub floor: Option<DateTime<Utc>>,
    /// A mail with this many tries in doubt is not sent again, but given up for this reason.
    pub tries_in_doubt_max: i32,
    pub given_up_reason: &'a str,
    /// A mail about an earlier event is held, unless an operator has released it.
    pub cutoff: DateTime<Utc>,
    /// An earlier release does not count: what it released may have been sent before a restore.
    pub released_since: DateTime<Utc>,
}

/// Leases due mails, the longest due first. The lease counts the try as one in doubt: if the sender
/// dies now, the row says that it may have sent the mail. With `skip locked`, parallel senders take
/// different rows instead of waiting for the same one.
///
/// The statement reads only what it returns, with any cached plan. `'pending'` is a literal: with a
/// parameter, a generic plan cannot use the partial index `receipts_due`; a test ties the literal to
/// [`Status::Pending`]. No condition filters the rows of the index, because mails that do not match
/// would be read again by every step. The rows are updated by `ctid`: a join by key could be planned
/// the other way round, as a scan of the whole table.
pub async fn lease_due(connection: &mut PgConnection, request: Lease<'_>) -> sqlx::Result<Taken> {
    let rows = sqlx::query!(
        r#"update receipts
        set status = case when tries_in_doubt >= $4 then $7
                          when event_time < $8
                               and (released_at is null or released_at < $10) then $9
                          else 'pending' end,
            lease_token = case when tries_in_doubt < $4
                                and (event_time >= $8 or released_at >= $10)
                          then $1::uuid end,
            due_at = clock_timestamp() + make_interval(secs => $2),
            tries = tries + case when tries_in_doubt < $4
                                  and (event_time >= $8 or released_at >= $10)
                            then 1 else 0 end,
            tries_in_doubt = tries_in_doubt + case when tries_in_doubt < $4
                                  and (event_time >= $8 or released_at >= $10)
                            then 1 else 0 end,
            last_error = case when tries_in_doubt < $4 then last_error else $6 end,
            updated_at = now()
        where ctid = any(array(
            select ctid from receipts
            where status = 'pending' and due_at <= now() and due_at >= coalesce($5::timestamptz, '-infinity')
            order by due_at
            limit $3
            for update skip locked
        ))
        returning event_id, mail_type, lease_token, status, order_id, attempt, recipient, amount, currency,
                  lines, reason, tries, tries_in_doubt, correlation_id, traceparent, created_at"#,
        request.token,
        request.lease.as_secs_f64(),
        request.limit,
        request.tries_in_doubt_max,
        request.floor,
        request.given_up_reason,
        Status::Unknown.as_str(),
        request.cutoff,
        Status::Held.as_str(),
        request.released_since,
    )
    .fetch_all(connection)
    .await?;
    let mut taken = Taken::default();
    for row in rows {
        match row.lease_token {
            Some(token) => taken.leased.push(Leased {
                event_id: row.event_id,
                mail_type: row.mail_type,
                token: Some(token),
                order_id: row.order_id,
                attempt: row.attempt,
                recipient: row.recipient,
                amount: row.amount,
                currency: row.currency,
                lines: row.lines,
                reason: row.reason,
                tries: row.tries,
                tries_in_doubt: row.tries_in_doubt,
                correlation_id: row.correlation_id,
                traceparent: row.traceparent,
                created_at: row.created_at,
            }),
            None if row.status == Status::Held.as_str() => taken.held.push(row.order_id),
            None => taken.given_up.push(row.order_id),
        }
    }
    Ok(taken)
}

/// The store's clock. Rows that are written later are due later.
pub async fn clock(connection: &mut PgConnection) -> sqlx::Result<DateTime<Utc>> {
    sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#)
        .fetch_one(connection)
        .await
}

/// When the first mail of the queue is due, if there is one from `floor` on. Sees mails that another
/// sender has locked, because its lease may fail.
pub async fn first_due(
    connection: &mut PgConnection,
    floor: Option<DateTime<Utc>>,
) -> sqlx::Result<Option<DateTime<Utc>>> {
    sqlx::query_scalar!(
        "select due_at from receipts
         where status = 'pending' and due_at >= coalesce($1::timestamptz, '-infinity')
         order by due_at
         limit 1",
        floor,
    )
    .fetch_optional(connection)
    .await
}

/// The result of a try.
#[derive(Clone, Debug)]
pub struct TryResult {
    pub order_id: Uuid,
    pub event_id: Uuid,
    pub mail_type: String,
    /// `None` in an unprotected program: the result is recorded without a check.
    pub token: Option<Uuid>,
    /// The state of the mail after the try.
    pub state: State,
    pub error: Option<String>,
    /// Time until the next try if the mail stays pending.
    pub delay: Duration,
}

/// Records the results whose lease is still valid, and returns how many. A stale result is
/// discarded; its try stays in doubt.
///
/// Each row is looked up by its key inside `lateral … limit 1`, which leaves the planner no other
/// order: the results come first.
pub async fn record(connection: &mut PgConnection, results: &[TryResult]) -> sqlx::Result<u64> {
    let order_ids: Vec<Uuid> = results.iter().map(|result| result.order_id).collect();
    let event_ids: Vec<Uuid> = results.iter().map(|result| result.event_id).collect();
    let mail_types: Vec<&str> = results.iter().map(|result| &*result.mail_type).collect();
    let tokens: Vec<Option<Uuid>> = results.iter().map(|result| result.token).collect();
    let statuses: Vec<&str> = results
        .iter()
        .map(|result| result.state.status.as_str())
        .collect();
    let tries_in_doubt: Vec<i32> = results
        .iter()
        .map(|result| result.state.tries_in_doubt)
        .collect();
    let errors: Vec<Option<&str>> = results
        .iter()
        .map(|result| result.error.as_deref())
        .collect();
    let delays: Vec<f64> = results
        .iter()
        .map(|result| result.delay.as_secs_f64())
        .collect();
    let recorded = sqlx::query!(
        "update receipts
         set status = result.status, tries_in_doubt = result.tries_in_doubt,
             last_error = result.error,
             due_at = clock_timestamp() + make_interval(secs => result.delay), lease_token = null,
             sent_at = case result.status when $8 then now() end, updated_at = now()
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::integer[], $6::text[],
                     $7::double precision[], $9::uuid[])
                as result (event_id, mail_type, token, status, tries_in_doubt, error, delay, order_id)
            cross join lateral (
                select ctid from receipts as mail
                where mail.order_id = result.order_id and mail.event_id = result.event_id
                  and mail.mail_type = result.mail_type
                limit 1
            ) as found
         where receipts.ctid = found.ctid
           and (receipts.lease_token = result.token or $10)",
        &event_ids,
        &mail_types as &[&str],
        &tokens as &[Option<Uuid>],
        &statuses as &[&str],
        &tries_in_doubt,
        &errors as &[Option<&str>],
        &delays,
        Status::Sent.as_str(),
        &order_ids,
        UNPROTECTED,
    )
    .execute(connection)
    .await?;
    Ok(recorded.rows_affected())
}
