//! How far the reconciler has read the books.

use std::time::Duration;

use sqlx::PgConnection;

/// Where the next run starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconciliationProgress {
    /// Every charge up to this id is compared; empty before the first run.
    pub verified_to: String,
    /// Where a full walk continues; `None` if none is in progress.
    pub walk_after: Option<String>,
    /// The last full walk is longer ago than the interval.
    pub walk_is_due: bool,
}

pub async fn read(
    connection: &mut PgConnection,
    walk_interval: Duration,
) -> sqlx::Result<ReconciliationProgress> {
    sqlx::query_as!(
        ReconciliationProgress,
        r#"select verified_to, walk_after,
                  walked_at <= now() - make_interval(secs => $1) as "walk_is_due!"
           from reconciliation_progress"#,
        walk_interval.as_secs_f64()
    )
    .fetch_one(connection)
    .await
}

/// Records that every charge up to this id is compared, in the transaction that compares them. Never goes
/// back.
pub async fn set_verified(connection: &mut PgConnection, verified_to: &str) -> sqlx::Result<()> {
    sqlx::query!(
        r#"update reconciliation_progress
           set verified_to = greatest(verified_to collate "C", $1 collate "C")"#,
        verified_to
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records how far the full walk is; `None` ends it.
pub async fn set_walk(connection: &mut PgConnection, walk_after: Option<&str>) -> sqlx::Result<()> {
    sqlx::query!(
        "update reconciliation_progress
         set walk_after = $1, walked_at = case when $1::text is null then now() else walked_at end",
        walk_after
    )
    .execute(connection)
    .await?;
    Ok(())
}
