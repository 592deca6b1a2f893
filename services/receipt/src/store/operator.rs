//! What operators read and change in the log of mails.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::resolution::{Action, Effect, resolve};
use crate::domain::{MailType, State, Status};

/// Maximum number of rows to count. Above it the exact count does not matter.
const COUNT_MAX: i64 = 10_000;

/// A mail as the log shows it to operators.
#[derive(Debug, Serialize)]
pub struct LoggedMail {
    pub order_id: Uuid,
    pub event_id: Uuid,
    pub mail_type: String,
    pub attempt: i32,
    pub recipient: String,
    pub status: String,
    pub tries: i32,
    /// Tries that may have delivered it. If there are two, the customer may have got two mails.
    pub tries_in_doubt: i32,
    pub last_error: Option<String>,
    pub sent_at: Option<DateTime<Utc>>,
    pub event_time: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    pub correlation_id: String,
}

/// The receipt of the order's last captured attempt.
pub async fn receipt_of_order(
    connection: &mut PgConnection,
    order_id: Uuid,
) -> sqlx::Result<Option<LoggedMail>> {
    sqlx::query_as!(
        LoggedMail,
        "select order_id, event_id, mail_type, attempt, recipient, status, tries, tries_in_doubt,
                last_error, sent_at, event_time, created_at, correlation_id
         from receipts where order_id = $1 and mail_type = $2
         order by attempt desc limit 1",
        order_id,
        MailType::Receipt.as_str(),
    )
    .fetch_optional(connection)
    .await
}

/// All mails of an order, the oldest first.
pub async fn of_order(
    connection: &mut PgConnection,
    order_id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<LoggedMail>> {
    sqlx::query_as!(
        LoggedMail,
        "select order_id, event_id, mail_type, attempt, recipient, status, tries, tries_in_doubt,
                last_error, sent_at, event_time, created_at, correlation_id
         from receipts where order_id = $1
         order by created_at, event_id limit $2",
        order_id,
        limit,
    )
    .fetch_all(connection)
    .await
}

/// Mails of a status that waits for an operator, in the order of their ids, after this one. The list
/// of statuses is the predicate of the index.
pub async fn page(
    connection: &mut PgConnection,
    status: Status,
    after: (Uuid, &str),
    limit: i64,
) -> sqlx::Result<Vec<LoggedMail>> {
    sqlx::query_as!(
        LoggedMail,
        "select order_id, event_id, mail_type, attempt, recipient, status, tries, tries_in_doubt,
                last_error, sent_at, event_time, created_at, correlation_id
         from receipts
         where status = $1 and status in ('held', 'failed', 'unknown')
           and (event_id, mail_type) > ($2, $3)
         order by event_id, mail_type limit $4",
        status.as_str(),
        after.0,
        after.1,
        limit,
    )
    .fetch_all(connection)
    .await
}

/// The number of mails of a status that waits for an operator, up to a limit.
pub async fn count(connection: &mut PgConnection, status: Status) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from (
               select from receipts
               where status = $1 and status in ('held', 'failed', 'unknown') limit $2) as counted"#,
        status.as_str(),
        COUNT_MAX
    )
    .fetch_one(connection)
    .await
}

/// What becomes of held mails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// They are sent.
    Release,
    /// They count as sent: the customers got them before.
    Settle,
}

impl HoldEnd {
    const fn status(self) -> Status {
        match self {
            Self::Release => Status::Pending,
            Self::Settle => Status::Sent,
        }
    }
}

/// Ends the hold of some mails, at most `limit`, and returns how many. A mail that another request is
/// changing is skipped.
pub async fn end_hold_of_some(
    connection: &mut PgConnection,
    end: HoldEnd,
    limit: i64,
) -> sqlx::Result<u64> {
    let released = sqlx::query!(
        "update receipts
         set status = $1, released_at = now(), due_at = clock_timestamp(), updated_at = now(),
             sent_at = case $1 when $3 then now() end
         where ctid = any(array(
             select ctid from receipts where status = 'held'
             order by event_id limit $2 for update skip locked))",
        end.status().as_str(),
        limit,
        Status::Sent.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(released.rows_affected())
}

/// Ends the hold of one order's mails, and returns how many there were.
pub async fn end_hold_of_order(
    connection: &mut PgConnection,
    end: HoldEnd,
    order_id: Uuid,
) -> sqlx::Result<u64> {
    let released = sqlx::query!(
        "update receipts
         set status = $1, released_at = now(), due_at = clock_timestamp(), updated_at = now(),
             sent_at = case $1 when $4 then now() end
         where order_id = $2 and status = $3",
        end.status().as_str(),
        order_id,
        Status::Held.as_str(),
        Status::Sent.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(released.rows_affected())
}

/// An operator's decision about one mail.
#[derive(Clone, Debug)]
pub struct Decision {
    pub event_id: Uuid,
    pub mail_type: MailType,
    /// The number of tries that the operator saw.
    pub tries: i32,
    pub action: Action,
    pub reason: String,
}

/// What became of a decision.
#[derive(Debug)]
pub enum Resolved {
    /// Applied now; the mail as it is now.
    Done(LoggedMail),
    /// An earlier request made the same decision; the mail as it is now.
    Repeated(LoggedMail),
    Conflict(LoggedMail),
    NotFound,
}

/// Applies a decision in the caller's transaction. A repeat changes nothing.
pub async fn decide(tx: &mut PgConnection, decision: &Decision) -> sqlx::Result<Resolved> {
    let Some(mail) = lock(tx, decision).await? else {
        return Ok(Resolved::NotFound);
    };
    let earlier = earlier(tx, decision).await?;
    let Ok(status) = mail.status.parse() else {
        return Ok(Resolved::Conflict(mail));
    };
    let state = State {
        status,
        tries_in_doubt: mail.tries_in_doubt,
    };
    match resolve(state, mail.tries, decision.tries, earlier, decision.action) {
        Effect::Repeated => Ok(Resolved::Repeated(mail)),
        Effect::Conflict => Ok(Resolved::Conflict(mail)),
        Effect::Apply(state) => {
            apply(tx, decision, mail.order_id, state).await?;
            let mail = lock(tx, decision).await?;
            Ok(mail.map_or(Resolved::NotFound, Resolved::Done))
        }
    }
}

/// Finds a mail that waits for an operator, or that a decision was made about. Others cannot be resolved, and the log has
/// no index over the events of all mails. The list of statuses is the predicate of an index.
async fn lock(tx: &mut PgConnection, decision: &Decision) -> sqlx::Result<Option<LoggedMail>> {
    sqlx::query_as!(
        LoggedMail,
        "select order_id, event_id, mail_type, attempt, recipient, status, tries, tries_in_doubt,
                last_error, sent_at, event_time, created_at, correlation_id
         from receipts
         where order_id = any(array(
                   select order_id from receipts as waiting
                   where status in ('held', 'failed', 'unknown') and event_id = $1 and mail_type = $2
                   union all
                   select order_id from mail_resolutions where event_id = $1 and mail_type = $2))
           and event_id = $1 and mail_type = $2
         for update",
        decision.event_id,
        decision.mail_type.as_str(),
    )
    .fetch_optional(tx)
    .await
}

async fn earlier(tx: &mut PgConnection, decision: &Decision) -> sqlx::Result<Option<Action>> {
    let action = sqlx::query_scalar!(
        "select action from mail_resolutions
         where event_id = $1 and mail_type = $2 and tries = $3",
        decision.event_id,
        decision.mail_type.as_str(),
        decision.tries,
    )
    .fetch_optional(tx)
    .await?;
    Ok(action.and_then(|action| action.parse().ok()))
}

/// The operator has seen the mail, so its age no longer holds it.
async fn apply(
    tx: &mut PgConnection,
    decision: &Decision,
    order_id: Uuid,
    state: State,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into mail_resolutions (event_id, mail_type, tries, action, reason, order_id)
         values ($1, $2, $3, $4, $5, $6)",
        decision.event_id,
        decision.mail_type.as_str(),
        decision.tries,
        decision.action.as_str(),
        decision.reason,
        order_id,
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!(
        "update receipts
         set status = $3, tries_in_doubt = $4, released_at = now(), due_at = clock_timestamp(),
             sent_at = case $3 when $5 then now() end, updated_at = now()
         where order_id = $6 and event_id = $1 and mail_type = $2",
        decision.event_id,
        decision.mail_type.as_str(),
        state.status.as_str(),
        state.tries_in_doubt,
        Status::Sent.as_str(),
        order_id,
    )
    .execute(tx)
    .await?;
    Ok(())
}
