//! How much money is on its way, for the metrics.

use sqlx::PgConnection;

/// Rows are looked at up to here: whether there are more makes no difference to anybody who looks.
const ROWS_MAX: i64 = 100_000;

/// Attempts of one open status.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attempts {
    pub count: i64,
    /// Age of the oldest; zero if there is none.
    pub oldest_seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Open {
    pub pending: Attempts,
    pub unknown: Attempts,
    pub refunds: i64,
}

/// By the indexes over what is due, which hold only what is open.
pub async fn count(connection: &mut PgConnection) -> sqlx::Result<Open> {
    Ok(Open {
        pending: attempts(connection, "pending").await?,
        unknown: attempts(connection, "unknown").await?,
        refunds: refunds(connection).await?,
    })
}

async fn attempts(connection: &mut PgConnection, status: &str) -> sqlx::Result<Attempts> {
    sqlx::query_as!(
        Attempts,
        r#"select count(*) as "count!",
                  coalesce(greatest(extract(epoch from now() - min(created_at)), 0)::float8, 0)
                      as "oldest_seconds!"
           from (select created_at from payments
                 where status = $1 and status in ('pending', 'unknown')
                 limit $2) as open"#,
        status,
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
