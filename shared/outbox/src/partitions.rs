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

/// The name of the partition with this end, which is a whole second and of which there is only one.
fn name_until(until: DateTime<Utc>) -> String {
    format!("outbox_until_{}", until.format("%Y%m%dt%H%M%S"))
}

/// Whether the partition with this end exists.
pub(crate) async fn exists(
    connection: &mut PgConnection,
    until: DateTime<Utc>,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select to_regclass($1) is not null as "exists!""#,
        name_until(until)
    )
    .fetch_one(connection)
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
    let name = name_until(until);
    let (from, until) = (from.to_rfc3339(), until.to_rfc3339());
    let statements = format!(
        "create table {name} (like outbox including defaults including constraints)
             with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
         create index on {name} (((shard::bigint << 48) + id))
             where published_at is null and not held;
         create index on {name} (subject) where held;
         create index on {name} (subject) where published_at is not null;
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
    // Two reads, one for each partial index.
    let sql = format!(
        "select exists (select from {name} where published_at is null and not held)
             or exists (select from {name} where held)"
    );
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

pub(crate) async fn drop(connection: &mut PgConnection, name: &str) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(format!("drop table {name}")))
        .execute(connection)
        .await?;
    Ok(())
}

/// Whether the default partition has no rows.
pub(crate) async fn is_default_empty(connection: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select not exists (select from outbox_default order by created_at limit 1) as "empty!""#
    )
    .fetch_one(connection)
    .await
}

/// Keeps rows of a time range out of the default partition. Does not look at the rows that it has:
/// [`validate_exclusion`] does. Replaces the constraint of a round that was interrupted.
pub(crate) async fn exclude_from_default(
    connection: &mut PgConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> sqlx::Result<()> {
    let (from, until) = (from.to_rfc3339(), until.to_rfc3339());
    let sql = format!(
        "alter table outbox_default drop constraint if exists outbox_default_exclusion;
         alter table outbox_default add constraint outbox_default_exclusion
             check (created_at < '{from}' or created_at >= '{until}') not valid"
    );
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads the whole default partition without blocking writers. It may take longer than other
/// statements.
pub(crate) async fn validate_exclusion(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(
        "begin;
         set local statement_timeout = 0;
         alter table outbox_default validate constraint outbox_default_exclusion;
         commit",
    )
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn end_exclusion(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::raw_sql("alter table outbox_default drop constraint if exists outbox_default_exclusion")
        .execute(connection)
        .await?;
    Ok(())
}

/// Deletes old published rows from the default partition, at most `rows_max`.
pub(crate) async fn reap_default(
    connection: &mut PgConnection,
    older_than: DateTime<Utc>,
    rows_max: i64,
) -> sqlx::Result<u64> {
    let deleted = sqlx::query!(
        "delete from outbox_default where ctid = any(array(
            select ctid from outbox_default
            where published_at is not null and created_at < $1
            order by created_at
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

/// Marks the published rows of some pages as unpublished, if they were created in the time range;
/// returns how many. A range of pages limits the statement without an index over all rows.
pub(crate) async fn mark_unpublished(
    connection: &mut PgConnection,
    name: &str,
    pages: std::ops::Range<i64>,
    (since, until): (DateTime<Utc>, DateTime<Utc>),
) -> sqlx::Result<u64> {
    let std::ops::Range { start, end } = pages;
    let sql = format!(
        "update {name} set published_at = null, republished = true
         where ctid >= '({start},0)'::tid and ctid < '({end},0)'::tid
           and created_at >= $1 and created_at < $2 and published_at is not null"
    );
    let updated = sqlx::query(AssertSqlSafe(sql))
        .bind(since)
        .bind(until)
        .execute(connection)
        .await?;
    Ok(updated.rows_affected())
}
