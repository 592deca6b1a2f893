//! Creating and dropping databases on any server, by URL.

use anyhow::Context;
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The same server and role, another database.
pub fn url(server: &str, database: &str) -> anyhow::Result<String> {
    // The URL itself may hold a password, so it does not go into the message.
    let mut url = Url::parse(server).context("the database URL cannot be read")?;
    url.set_path(database);
    Ok(url.into())
}

/// Connects and leaves again.
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

/// A fresh database for one test, on the server that `TEST_DATABASE_URL` names; returns its URL.
/// The server is made for the test run, so the database goes when the run does.
pub async fn create_for_test(label: &str) -> anyhow::Result<String> {
    let server = std::env::var("TEST_DATABASE_URL").context(
        "TEST_DATABASE_URL is not set: run scripts/test.sh, or `lab infra -- cargo test …`",
    )?;
    let name = format!("{label}_{}", uuid::Uuid::new_v4().simple());
    create(&server, &name).await?;
    url(&server, &name)
}

/// Creates a database unless it is there.
pub async fn create_if_missing(server: &str, name: &str) -> anyhow::Result<()> {
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

/// Drops a database, and whoever is still connected to it.
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
    // Names cannot be parameters of such statements; `quoted` makes them safe.
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
    fn the_database_of_a_url_is_replaced_and_its_options_are_kept() {
        assert_eq!(
            url("postgres://me:pw@db:5433/postgres?sslmode=require", "order").unwrap(),
            "postgres://me:pw@db:5433/order?sslmode=require"
        );
    }

    #[test]
    fn a_quote_in_a_name_cannot_end_the_name() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
