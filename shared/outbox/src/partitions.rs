//! The partitions of the outbox. Their names come from the catalog or from a time, so the statements
//! that are put together here have nothing foreign in them.

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, PgConnection};

/// A partition, and the end of the time that it covers; none for the default partition.
pub(crate) struct Partition {
    /// Quoted where it has to be.
    pub(crate) name: String,
    pub(crate) until: Option<DateTime<Utc>>,
}

/// All partitions of the outbox, the oldest first.
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

/// Adds the partition of a time to the table, which has to be locked: a writer that does not know of it
/// yet would bring its row to the default partition, and be refused there.
pub(crate) async fn add(
    connection: &mut PgConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> sqlx::Result<()> {
    // By its end, which is a whole second and no other partition's.
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

/// Whether anything in the partition is still to be published.
pub(crate) async fn has_unpublished(
    connection: &mut PgConnection,
    name: &str,
) -> sqlx::Result<bool> {
    let sql = format!("select exists (select from {name} where published_at is null)");
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await
}

/// Keeps everybody away from the table until the transaction ends; for an instant, to put a
/// partition in or take one out.
pub(crate) async fn lock_table(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!("lock table only outbox in access exclusive mode")
        .execute(connection)
        .await?;
    Ok(())
}

/// Keeps partitions from being taken out until the transaction ends.
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

/// Deletes old published rows that landed in the default partition; at most `rows_max`. It has no
/// index for this, because it is empty unless nobody made partitions for a while.
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

/// How many pages the partition has.
pub(crate) async fn pages(connection: &mut PgConnection, name: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select pg_relation_size($1::text::regclass) / current_setting('block_size')::bigint
               as "pages!""#,
        name
    )
    .fetch_one(connection)
    .await
}

/// Marks the published rows of some pages as unpublished again; returns how many. By pages, because
/// that bounds a statement without an index over all rows.
pub(crate) async fn unmark(
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
