//! How much waits to be published, and for how long.

use service_kit::{Reading, database};
use sqlx::{PgConnection, PgPool};
use telemetry::metric;

/// Rows are counted up to here: whether there are more makes no difference to anybody who looks.
const ROWS_MAX: i64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    pub rows: i64,
    /// Age of the first row in the line; zero if there is none.
    pub oldest_seconds: f64,
}

/// Asks the partial indexes over what is unpublished, so it costs what the backlog is long, not what
/// the table is.
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

/// For [`service_kit::Gauges::read`]. Every replica tells the same: it is one table.
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
