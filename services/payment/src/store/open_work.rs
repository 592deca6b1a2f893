//! Open attempts, refunds and unexplained charges, counted for the metrics.

use sqlx::PgConnection;

use crate::domain::AttemptStatus;

/// Maximum number of rows to count. Above it the exact count does not matter.
const ROWS_MAX: i64 = 10_000;

/// Attempts of one open status.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpenAttempts {
    pub count: i64,
    /// Age of the oldest attempt; zero if there is none.
    pub oldest_seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpenWork {
    pub pending: OpenAttempts,
    pub unknown: OpenAttempts,
    pub refunds: i64,
    pub refunds_failed: i64,
    pub unexplained: i64,
}

/// Counts open attempts and refunds. The queries use the indexes of due rows, which contain open
/// rows only.
pub async fn count(connection: &mut PgConnection) -> sqlx::Result<OpenWork> {
    Ok(OpenWork {
        pending: attempts(connection, AttemptStatus::Pending).await?,
        unknown: attempts(connection, AttemptStatus::Unknown).await?,
        refunds: refunds(connection).await?,
        refunds_failed: refunds_failed(connection).await?,
        unexplained: unexplained(connection).await?,
    })
}

async fn attempts(
    connection: &mut PgConnection,
    status: AttemptStatus,
) -> sqlx::Result<OpenAttempts> {
    sqlx::query_as!(
        OpenAttempts,
        r#"select count(*) as "count!",
                  coalesce(greatest(extract(epoch from now() - min(created_at)), 0)::float8, 0)
                      as "oldest_seconds!"
           from (select created_at from payments
                 where status = $1 and status in ('pending', 'unknown')
                 limit $2) as open"#,
        status.as_str(),
        ROWS_MAX
    )
    .fetch_one(connection)
    .await
}

async fn refunds(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!"
           from (select from refunds where status in ('pending', 'unknown') limit $1) as open"#,
        ROWS_MAX
    )
    .fetch_one(connection)
    .await
}

async fn refunds_failed(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!"
           from (select from refunds where status = 'failed' limit $1) as failed"#,
        ROWS_MAX
    )
    .fetch_one(connection)
    .await
}

async fn unexplained(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!"
           from (select from unexplained_charges where status = 'open' limit $1) as open"#,
        ROWS_MAX
    )
    .fetch_one(connection)
    .await
}
