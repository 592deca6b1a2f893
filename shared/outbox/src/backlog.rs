//! The backlog: how many rows wait to be published, and for how long; how many orders are held.

use service_kit::{Reading, database};
use sqlx::{PgConnection, PgPool};
use telemetry::metric;

use crate::{SHARDS, held};

/// Maximum number of rows to count. Above it the exact count does not matter.
const ROWS_MAX: i64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    /// Unpublished rows, at most 10,000. Events of held orders do not count.
    pub rows: i64,
    /// Age of the oldest unpublished row; zero if there is none.
    pub oldest_seconds: f64,
}

/// Reads the partial indexes over unpublished rows: the cost depends on the length of the backlog, up to
/// the limit, and not on the size of the table.
pub async fn backlog(connection: &mut PgConnection) -> sqlx::Result<Backlog> {
    sqlx::query_as!(
        Backlog,
        r#"select (select count(*) from (
                      select from outbox where published_at is null and not held limit $1
                   ) as waiting) as "rows!",
                  coalesce(
                      (select max(greatest(extract(epoch from now() - first.created_at), 0)::float8)
                       from generate_series(0, $2::bigint - 1) as shards (shard)
                       cross join lateral (
                           select created_at from outbox
                           where published_at is null and not held
                             and (outbox.shard::bigint << 48) + id > shards.shard << 48
                             and (outbox.shard::bigint << 48) + id < (shards.shard + 1) << 48
                           order by (outbox.shard::bigint << 48) + id limit 1
                       ) as first),
                      0) as "oldest_seconds!""#,
        ROWS_MAX,
        i64::from(SHARDS)
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
            let mut connection = database::acquire(&pool).await?;
            let backlog = backlog(&mut connection).await?;
            metrics::gauge!(metric::OUTBOX_UNPUBLISHED_ROWS).set(backlog.rows as f64);
            metrics::gauge!(metric::OUTBOX_OLDEST_SECONDS).set(backlog.oldest_seconds);
            for (cause, orders) in held::count(&mut connection).await? {
                metrics::gauge!(metric::OUTBOX_HELD_ORDERS, "cause" => cause).set(orders as f64);
            }
            Ok(())
        })
    }
}
