//! The log of mails.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

/// The only kind of mail so far; with the event's id, what a row is known by.
const MAIL_TYPE: &str = "receipt";

/// A mail to be sent.
pub struct NewReceipt {
    pub event_id: Uuid,
    pub order_id: Uuid,
    pub attempt: i32,
    pub recipient: String,
    pub amount: i64,
    pub currency: &'static str,
    pub lines: Value,
    pub correlation_id: String,
    pub traceparent: Option<String>,
}

/// Logs mails to be sent; one that is there already stays as it is.
pub async fn log(connection: &mut PgConnection, new: &[NewReceipt]) -> sqlx::Result<()> {
    let event_ids: Vec<Uuid> = new.iter().map(|new| new.event_id).collect();
    let order_ids: Vec<Uuid> = new.iter().map(|new| new.order_id).collect();
    let attempts: Vec<i32> = new.iter().map(|new| new.attempt).collect();
    let recipients: Vec<&str> = new.iter().map(|new| &*new.recipient).collect();
    let amounts: Vec<i64> = new.iter().map(|new| new.amount).collect();
    let currencies: Vec<&str> = new.iter().map(|new| new.currency).collect();
    let lines: Vec<Value> = new.iter().map(|new| new.lines.clone()).collect();
    let correlations: Vec<&str> = new.iter().map(|new| &*new.correlation_id).collect();
    let traces: Vec<Option<&str>> = new.iter().map(|new| new.traceparent.as_deref()).collect();
    sqlx::query!(
        "insert into receipts (mail_type, event_id, order_id, attempt, recipient, amount, currency,
                               lines, correlation_id, traceparent)
         select $1, * from unnest($2::uuid[], $3::uuid[], $4::integer[], $5::text[], $6::bigint[],
                                  $7::text[], $8::jsonb[], $9::text[], $10::text[])
         on conflict do nothing",
        MAIL_TYPE,
        &event_ids,
        &order_ids,
        &attempts,
        &recipients as &[&str],
        &amounts,
        &currencies as &[&str],
        &lines,
        &correlations as &[&str],
        &traces as &[Option<&str>],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// A mail that this process may send until its lease runs out.
#[derive(Clone, Debug)]
pub struct Leased {
    pub event_id: Uuid,
    pub mail_type: String,
    pub token: Uuid,
    pub order_id: Uuid,
    pub attempt: i32,
    pub recipient: String,
    pub amount: i64,
    pub currency: String,
    pub lines: Value,
    pub tries: i32,
    /// Tries that may have delivered it, this one included.
    pub doubts: i32,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    pub created_at: DateTime<Utc>,
}

/// Leases mails that are due, the longest due first. The try is counted, and doubted, here: if this
/// is the last that is ever heard of the sender, the row says that it may have sent. A mail that has
/// been doubted `doubts_max` times is left to [`give_up`]. `skip locked`: senders side by side take
/// different rows instead of queueing for the same one.
pub async fn lease_due(
    connection: &mut PgConnection,
    token: Uuid,
    lease: Duration,
    doubts_max: i32,
    limit: i64,
) -> sqlx::Result<Vec<Leased>> {
    sqlx::query_as!(
        Leased,
        r#"with due as (
            select event_id, mail_type from receipts
            where status = 'pending' and due_at <= now() and doubts < $4
            order by due_at
            limit $3
            for update skip locked
        )
        update receipts
        set lease_token = $1, due_at = now() + make_interval(secs => $2), tries = tries + 1,
            doubts = doubts + 1
        from due
        where receipts.event_id = due.event_id and receipts.mail_type = due.mail_type
        returning receipts.event_id, receipts.mail_type, lease_token as "token!", order_id,
                  attempt, recipient, amount, currency, lines, tries, doubts, correlation_id,
                  traceparent, created_at"#,
        token,
        lease.as_secs_f64(),
        limit,
        doubts_max
    )
    .fetch_all(connection)
    .await
}

/// Closes mails that have been doubted too often: the lease of their last try ran out without a
/// word. Returns their orders.
pub async fn give_up(
    connection: &mut PgConnection,
    doubts_max: i32,
    reason: &str,
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "update receipts
         set status = 'unknown', lease_token = null, last_error = $2, updated_at = now()
         where status = 'pending' and due_at <= now() and doubts >= $1
         returning order_id",
        doubts_max,
        reason
    )
    .fetch_all(connection)
    .await
}

/// What a try came to.
#[derive(Clone, Debug)]
pub struct TryResult {
    pub event_id: Uuid,
    pub mail_type: String,
    pub token: Uuid,
    pub status: &'static str,
    pub doubts: i32,
    pub error: Option<String>,
    /// Until the next try of a mail that stays pending.
    pub delay: Duration,
}

/// Records the results of those tries whose lease is still in force, and returns how many. A sender
/// that overslept its lease is refused here; its try stays doubted.
pub async fn record(connection: &mut PgConnection, results: &[TryResult]) -> sqlx::Result<u64> {
    let event_ids: Vec<Uuid> = results.iter().map(|result| result.event_id).collect();
    let mail_types: Vec<&str> = results.iter().map(|result| &*result.mail_type).collect();
    let tokens: Vec<Uuid> = results.iter().map(|result| result.token).collect();
    let statuses: Vec<&str> = results.iter().map(|result| result.status).collect();
    let doubts: Vec<i32> = results.iter().map(|result| result.doubts).collect();
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
         set status = result.status, doubts = result.doubts, last_error = result.error,
             due_at = now() + make_interval(secs => result.delay), lease_token = null,
             sent_at = case result.status when 'sent' then now() end, updated_at = now()
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::integer[], $6::text[],
                     $7::double precision[])
            as result (event_id, mail_type, token, status, doubts, error, delay)
         where receipts.event_id = result.event_id and receipts.mail_type = result.mail_type
           and receipts.lease_token = result.token",
        &event_ids,
        &mail_types as &[&str],
        &tokens,
        &statuses as &[&str],
        &doubts,
        &errors as &[Option<&str>],
        &delays,
    )
    .execute(connection)
    .await?;
    Ok(recorded.rows_affected())
}

/// What the log says of an order's receipt.
#[derive(Debug, Serialize)]
pub struct Entry {
    pub order_id: Uuid,
    pub event_id: Uuid,
    pub mail_type: String,
    pub attempt: i32,
    pub recipient: String,
    pub status: String,
    pub tries: i32,
    /// Tries that may have delivered it: above one, the customer may have it twice.
    pub doubts: i32,
    pub last_error: Option<String>,
    pub sent_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub correlation_id: String,
}

/// The receipt of an order's last captured attempt.
pub async fn of_order(
    connection: &mut PgConnection,
    order_id: Uuid,
) -> sqlx::Result<Option<Entry>> {
    sqlx::query_as!(
        Entry,
        "select order_id, event_id, mail_type, attempt, recipient, status, tries, doubts,
                last_error, sent_at, created_at, correlation_id
         from receipts where order_id = $1
         order by attempt desc limit 1",
        order_id
    )
    .fetch_optional(connection)
    .await
}
