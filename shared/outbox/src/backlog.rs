//! The backlog: how many rows wait to be published, and for how long.

use service_kit::{Reading, database};
use sqlx::{PgConnection, PgPool};
use telemetry::metric;

/// Maximum number of rows to count. Above it the exact count does not matter.
const ROWS_MAX: i64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    /// Unpublished rows, at most 100,000.
    pub rows: i64,
    /// Age of the oldest unpublished row; zero if there is none.
    pub oldest_seconds: f64,
}

/// Reads the partial indexes over unpublished rows: the cost depends on the length of the backlog,
/// not on the size of the table.
pub async fn backlog(connection: &mut PgConnection) -> sqlx::Result<Backlog> {
    sqlx::query_as!(
        Backlog,
        r#"select (select count(*) from (
                      select from outbox where published_at is null limit $1) as waiting) as "rows!",
                  coalesce(
                      (select greatest(extract(epoch from now() - created_at), 0)::float8
                       from outbox where published_at is null order by id limit 1),
                      0) as "oldest_seconds!""#,
        ROWS_MAX
    )
    .fetch_one(connection)
    .await
}

/// For [`service_kit::Gauges::read`]. All replicas read the same table and report the same values.
pub fn gauge(pool: &PgPool) -> impl Fn() -> Reading + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let backlog = backlog(&mut *database::acquire(&pool).await?).await?;
            metrics::gauge!(metric::OUTBOX_UNPUBLISHED_ROWS).set(backlog.rows as f64);
            metrics::gauge!(metric::OUTBOX_OLDEST_SECONDS).set(backlog.oldest_seconds);
            Ok(())
        })
    }
}
