//! The queues of due attempts and refunds: whose they are, and where each begins.

use chrono::{DateTime, Utc};
use leases::{LeaseRequest, Queues, Range};
use sqlx::PgConnection;

use crate::domain::AttemptStatus;

/// The principals of a lease by column: where each queue begins, and how many of its rows to lease.
pub struct Floors<'a> {
    pub principals: Vec<&'a str>,
    pub floors: Vec<DateTime<Utc>>,
    pub limits: Vec<i64>,
}

impl<'a> Floors<'a> {
    pub fn of(request: &'a LeaseRequest, queues: &Queues) -> Self {
        let shares = &request.shares;
        Self {
            principals: shares.iter().map(|it| &*it.principal).collect(),
            floors: shares
                .iter()
                .map(|it| queues.floor(&it.principal))
                .collect(),
            limits: shares.iter().map(|it| it.limit).collect(),
        }
    }
}

/// Adds a principal, in the transaction that opens its first attempt. See also
/// [`crate::store::attempts::open`].
pub async fn add_principal(connection: &mut PgConnection, principal: &str) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into charged_principals (principal) values ($1) on conflict do nothing",
        principal
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// All principals that ever had an attempt.
pub async fn principals(connection: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("select principal from charged_principals order by principal")
        .fetch_all(connection)
        .await
}

/// The time on the database's clock, from which `due_at` is computed.
pub async fn now(connection: &mut PgConnection) -> sqlx::Result<DateTime<Utc>> {
    sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#)
        .fetch_one(connection)
        .await
}

/// When the first attempt of each range is due; `None` if the range is empty.
pub async fn first_attempts(
    connection: &mut PgConnection,
    status: AttemptStatus,
    ranges: &[Range],
) -> sqlx::Result<Vec<Option<DateTime<Utc>>>> {
    let (principals, after, until) = columns(ranges);
    sqlx::query_scalar!(
        r#"select (select due_at from payments
                   where status = $4 and status in ('pending', 'unknown')
                     and principal = range.principal
                     and due_at > range.after and due_at <= range.until
                   order by due_at limit 1)
           from unnest($1::text[], $2::timestamptz[], $3::timestamptz[])
               as range (principal, after, until)"#,
        &principals as &[&str],
        &after,
        &until,
        status.as_str()
    )
    .fetch_all(connection)
    .await
}

/// [`first_attempts`] for refunds.
pub async fn first_refunds(
    connection: &mut PgConnection,
    ranges: &[Range],
) -> sqlx::Result<Vec<Option<DateTime<Utc>>>> {
    let (principals, after, until) = columns(ranges);
    sqlx::query_scalar!(
        r#"select (select due_at from refunds
                   where status in ('pending', 'unknown') and principal = range.principal
                     and due_at > range.after and due_at <= range.until
                   order by due_at limit 1)
           from unnest($1::text[], $2::timestamptz[], $3::timestamptz[])
               as range (principal, after, until)"#,
        &principals as &[&str],
        &after,
        &until
    )
    .fetch_all(connection)
    .await
}

type Columns<'a> = (Vec<&'a str>, Vec<DateTime<Utc>>, Vec<DateTime<Utc>>);

fn columns(ranges: &[Range]) -> Columns<'_> {
    (
        ranges.iter().map(|range| &*range.principal).collect(),
        ranges.iter().map(|range| range.after).collect(),
        ranges.iter().map(|range| range.until).collect(),
    )
}
