//! Creates and drops databases on a server, by URL.

use anyhow::Context;
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

/// The URL of another database on the same server, with the same role.
pub fn url(server: &str, database: &str) -> anyhow::Result<String> {
    // The message leaves the URL out, because it may contain a password.
    let mut url = Url::parse(server).context("the database URL is invalid")?;
    url.set_path(database);
    Ok(url.into())
}

/// Connects and disconnects.
pub async fn ping(url: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(url).await?;
    connection.ping().await?;
    Ok(connection.close().await?)
}

/// Creates an empty database.
pub async fn create(server: &str, name: &str) -> anyhow::Result<()> {
    run(server, format!("CREATE DATABASE {}", quoted(name)))
        .await
        .with_context(|| format!("cannot create the database {name}"))
}

/// Creates a database as a copy of another, which must have no connections.
pub async fn copy(server: &str, template: &str, name: &str) -> anyhow::Result<()> {
    let (quoted_name, template) = (quoted(name), quoted(template));
    run(
        server,
        format!("CREATE DATABASE {quoted_name} TEMPLATE {template}"),
    )
    .await
    .with_context(|| format!("cannot create the database {name} from {template}"))
}

/// Creates a database for one test on the server that `TEST_DATABASE_URL` names, and returns its
/// URL. The database is removed with the server at the end of the test run.
pub async fn create_for_test(label: &str) -> anyhow::Result<String> {
    let (server, name) = (server_for_test()?, name_for_test(label));
    create(&server, &name).await?;
    url(&server, &name)
}

pub(super) fn server_for_test() -> anyhow::Result<String> {
    std::env::var("TEST_DATABASE_URL").context(
        "TEST_DATABASE_URL is not set: run scripts/test.sh, or `lab infra -- cargo test …`",
    )
}

pub(super) fn name_for_test(label: &str) -> String {
    format!("{label}_{}", uuid::Uuid::new_v4().simple())
}

/// Creates a database unless it exists.
pub(crate) async fn create_if_missing(server: &str, name: &str) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(server).await?;
    let exists: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
            .bind(name)
            .fetch_one(&mut connection)
            .await?;
    connection.close().await?;
    if exists {
        Ok(())
    } else {
        create(server, name).await
    }
}

/// Waits until every transaction that was open at the time of the call has ended. Short ones end; one that is
/// held open during a call to another system lasts as long as that call.
pub async fn transactions_end(pool: &PgPool) {
    let now = sqlx::query_scalar("select clock_timestamp()::text").fetch_one(pool);
    let now: Option<String> = now.await.ok();
    let open = "select count(*) from pg_stat_activity
                where datname = current_database() and state like 'idle in transaction%'
                  and xact_start < $1::timestamptz";
    crate::eventually("no transaction is open during a call", async || {
        let open = sqlx::query_scalar::<_, i64>(open).bind(&now);
        now.is_some() && open.fetch_one(pool).await.is_ok_and(|count| count == 0)
    })
    .await;
}

/// Drops a database and closes the connections to it.
pub async fn drop_now(server: &str, name: &str) -> anyhow::Result<()> {
    let name = quoted(name);
    run(
        server,
        format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
    )
    .await
    .with_context(|| format!("cannot drop the database {name}"))
}

async fn run(server: &str, statement: String) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(server).await?;
    // Names cannot be parameters of these statements; `quoted` makes them safe.
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_keeps_its_options_with_another_database() {
        assert_eq!(
            url("postgres://me:pw@db:5433/postgres?sslmode=require", "order").unwrap(),
            "postgres://me:pw@db:5433/order?sslmode=require"
        );
    }

    #[test]
    fn quote_in_a_name_is_escaped() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
