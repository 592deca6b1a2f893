//! The reports of the reconciler, and the rows that it compares.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::books::{Attempt, OurRefund};
use crate::domain::{AttemptStatus, RefundStatus};

/// The advisory lock of a reconciliation; `"reco"` in ASCII.
const LOCK: i64 = 0x7265_636f;

/// How long the session of the reconciler may be idle before Postgres ends it and frees its lock. A
/// page and the provider's response together take less.
const IDLE_MS_MAX: &str = "120000";

/// Maximum number of reports that one [`reap`] deletes.
pub const REAP_ROWS_MAX: i64 = 100;

/// A report in the table.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub id: i64,
    pub trigger: String,
    pub started_at: DateTime<Utc>,
    /// Absent while the reconciliation runs, and forever if it was interrupted.
    pub finished_at: Option<DateTime<Utc>>,
    pub pages: i32,
    pub charges: i64,
    pub attempts: i64,
    pub recent: i64,
    pub settled: i64,
    pub refunds_settled: i64,
    pub refunds_opened: i64,
    pub differing: i64,
    pub differences: Value,
    /// Why the run ended before the end of the books.
    pub stopped: Option<String>,
}

/// The numbers that one page adds to the report.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub charges: i64,
    pub attempts: i64,
    pub recent: i64,
    pub settled: i64,
    pub refunds_settled: i64,
    pub refunds_opened: i64,
    pub differing: i64,
    /// At most as many as the report may still list.
    pub differences: Value,
}

/// Takes the lock for this session, if it is free. The lock ends with the session.
pub async fn try_lock(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let row = sqlx::query!(
        r#"select pg_try_advisory_lock($1) as "locked!",
                  set_config('idle_session_timeout', $2, false)"#,
        LOCK,
        IDLE_MS_MAX
    )
    .fetch_one(connection)
    .await?;
    Ok(row.locked)
}

/// Frees the lock. The end of the session would free it too, but with a delay.
pub async fn unlock(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query_scalar!("select pg_advisory_unlock($1)", LOCK)
        .fetch_one(connection)
        .await?;
    Ok(())
}

pub async fn begin(connection: &mut PgConnection, trigger: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        "insert into reconciliations (trigger) values ($1) returning id",
        trigger
    )
    .fetch_one(connection)
    .await
}

/// Adds a page to the report, in the transaction that applies the page.
pub async fn add(connection: &mut PgConnection, id: i64, tally: &Tally) -> sqlx::Result<()> {
    sqlx::query!(
        "update reconciliations
         set pages = pages + 1, charges = charges + $2, attempts = attempts + $3,
             recent = recent + $4, settled = settled + $5, refunds_settled = refunds_settled + $6,
             refunds_opened = refunds_opened + $7, differing = differing + $8,
             differences = differences || $9
         where id = $1",
        id,
        tally.charges,
        tally.attempts,
        tally.recent,
        tally.settled,
        tally.refunds_settled,
        tally.refunds_opened,
        tally.differing,
        tally.differences,
    )
    .execute(connection)
    .await?;
    Ok(())
}

pub async fn finish(
    connection: &mut PgConnection,
    id: i64,
    stopped: Option<&str>,
) -> sqlx::Result<Report> {
    sqlx::query_as!(
        Report,
        "update reconciliations set finished_at = now(), stopped = $2 where id = $1
         returning id, trigger, started_at, finished_at, pages, charges, attempts, recent, settled,
                   refunds_settled, refunds_opened, differing, differences, stopped",
        id,
        stopped
    )
    .fetch_one(connection)
    .await
}

/// Deletes reports that started longer ago than this, the oldest first. Reads no more rows than it may
/// delete: ids are in the order of time.
pub async fn reap(connection: &mut PgConnection, older_than: Duration) -> sqlx::Result<u64> {
    let removed = sqlx::query!(
        "delete from reconciliations where ctid = any(array(
             select ctid from (
                 select ctid, started_at from reconciliations order by id limit $2
             ) as oldest
             where started_at < now() - make_interval(secs => $1)
         ))",
        older_than.as_secs_f64(),
        REAP_ROWS_MAX,
    )
    .execute(connection)
    .await?;
    Ok(removed.rows_affected())
}

/// The latest reports, newest first.
pub async fn latest(connection: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<Report>> {
    sqlx::query_as!(
        Report,
        "select id, trigger, started_at, finished_at, pages, charges, attempts, recent, settled,
                refunds_settled, refunds_opened, differing, differences, stopped
         from reconciliations order by id desc limit $1",
        limit
    )
    .fetch_all(connection)
    .await
}

/// The attempts that these keys name.
pub async fn attempts(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
    attempts: &[i32],
) -> sqlx::Result<Vec<Attempt>> {
    sqlx::query_as!(
        Attempt,
        r#"select found.order_id, found.attempt, status as "status: AttemptStatus", amount,
                  currency, charge_id
           from unnest($1::uuid[], $2::integer[]) as key (order_id, attempt)
           cross join lateral (
               select order_id, attempt, status, amount, currency, charge_id from payments
               where payments.order_id = any(array[key.order_id])
                 and payments.attempt = key.attempt
           ) as found"#,
        order_ids,
        attempts
    )
    .fetch_all(connection)
    .await
}

/// Captured attempts with a charge after `after` and up to `last`, old enough to be in the books.
/// `None`: no upper limit.
///
/// Both limits are conditions on the index with a generic plan too. Without `last` the greatest id is the limit, which no id
/// exceeds. With `$2 is null or …` instead, each page would read the index to its end.
pub async fn captured(
    connection: &mut PgConnection,
    after: &str,
    last: Option<&str>,
    grace: Duration,
    limit: i64,
) -> sqlx::Result<Vec<Attempt>> {
    sqlx::query_as!(
        Attempt,
        r#"select order_id, attempt, status as "status: AttemptStatus", amount, currency, charge_id
           from payments
           where charge_id collate "C" > $1
             and charge_id collate "C" <= coalesce($2, (
                 select charge_id from payments where charge_id is not null
                 order by charge_id collate "C" desc limit 1))
             and status = $5 and updated_at <= now() - make_interval(secs => $3)
           order by charge_id collate "C"
           limit $4"#,
        after,
        last,
        grace.as_secs_f64(),
        limit,
        AttemptStatus::Captured.as_str()
    )
    .fetch_all(connection)
    .await
}

/// Our refunds of these charges, by charge.
pub async fn refunds(
    connection: &mut PgConnection,
    charge_ids: &[&str],
) -> sqlx::Result<Vec<(String, OurRefund)>> {
    let rows = sqlx::query!(
        r#"select charge_id, key, status as "status: RefundStatus" from refunds
           where charge_id = any($1)"#,
        charge_ids as &[&str]
    )
    .fetch_all(connection)
    .await?;
    let refunds = rows.into_iter().map(|row| {
        let refund = OurRefund {
            key: row.key,
            status: row.status,
        };
        (row.charge_id, refund)
    });
    Ok(refunds.collect())
}
