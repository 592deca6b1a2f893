//! Store functions for the partitions of the outbox. Partition names come from the catalog or from a
//! timestamp, never from input, so the statements built here are safe.

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, PgConnection};

/// A partition, and the end of the time range that it covers; `None` for the default partition.
pub(crate) struct Partition {
    /// Quoted where necessary.
    pub(crate) name: String,
    pub(crate) until: Option<DateTime<Utc>>,
}

/// All partitions of the outbox, oldest first.
pub(crate) async fn list(connection: &mut PgConnection) -> sqlx::Result<Vec<Partition>> {
    sqlx::query_as!(
        Partition,
        r#"select partition.oid::regclass::text as "name!",
                  (regexp_match(pg_get_expr(partition.relpartbound, partition.oid),
                                'TO \(''([^'']+)''\)'))[1]::timestamptz as until
           from pg_inherits join pg_class as partition on partition.oid = inhrelid
           where inhparent = 'outbox'::regclass
           order by until nulls last"#
    )
    .fetch_all(connection)
    .await
}

/// Adds the partition of a time range. The caller must hold the table lock. Otherwise a writer that
/// does not know the partition yet would route its row to the default partition, and the insert
/// would fail.
pub(crate) async fn add(
    connection: &mut PgConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> sqlx::Result<()> {
    // The end is a whole second, and no two partitions share it.
    let name = format!("outbox_until_{}", until.format("%Y%m%dt%H%M%S"));
    let (from, until) = (from.to_rfc3339(), until.to_rfc3339());
    let statements = format!(
        "create table {name} (like outbox including defaults including constraints)
             with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
         create index on {name} (id) where published_at is null;
         alter table outbox attach partition {name} for values from ('{from}') to ('{until}');"
    );
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(connection)
        .await?;
    Ok(())
}

/// Whether the partition contains unpublished rows.
pub(crate) async fn has_unpublished(
    connection: &mut PgConnection,
    name: &str,
) -> sqlx::Result<bool> {
    let sql = format!("select exists (select from {name} where published_at is null)");
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await
}

/// Locks out all other sessions until the transaction ends. Used briefly, to attach or drop a
/// partition.
pub(crate) async fn lock_table(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("lock table only outbox in access exclusive mode")
        .execute(connection)
        .await?;
    Ok(())
}

/// Prevents partitions from being dropped until the transaction ends.
pub(crate) async fn keep_all(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("lock table only outbox in access share mode")
        .execute(connection)
        .await?;
    Ok(())
}

pub(crate) async fn drop(connection: &mut PgConnection, name: &str) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(format!("drop table {name}")))
        .execute(connection)
        .await?;
    Ok(())
}

/// Deletes old published rows from the default partition, at most `rows_max`. There is no index for
/// this, because that partition is empty unless maintenance did not run for a while.
pub(crate) async fn reap_default(
    connection: &mut PgConnection,
    older_than: DateTime<Utc>,
    rows_max: i64,
) -> sqlx::Result<u64> {
    let deleted = sqlx::query!(
        "delete from outbox_default where ctid = any(array(
            select ctid from outbox_default
            where published_at is not null and created_at < $1
            limit $2 for update skip locked))",
        older_than,
        rows_max
    )
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}

/// Number of pages of the partition.
pub(crate) async fn pages(connection: &mut PgConnection, name: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint
               as "pages!""#,
        name
    )
    .fetch_one(connection)
    .await
}

/// Marks the published rows of some pages as unpublished; returns how many. A range of pages limits
/// the statement without an index over all rows.
pub(crate) async fn mark_unpublished(
    connection: &mut PgConnection,
    name: &str,
    pages: std::ops::Range<i64>,
    since: DateTime<Utc>,
) -> sqlx::Result<u64> {
    let std::ops::Range { start, end } = pages;
    let sql = format!(
        "update {name} set published_at = null
         where ctid >= '({start},0)'::tid and ctid < '({end},0)'::tid
           and created_at >= $1 and published_at is not null"
    );
    let updated = sqlx::query(AssertSqlSafe(sql))
        .bind(since)
        .execute(connection)
        .await?;
    Ok(updated.rows_affected())
}
