//! The table `idempotency_keys` in a real Postgres. Each test has its own database.

// The exception of the lint for tests does not cover helper functions.
#![allow(clippy::unwrap_used)]

mod claiming;
mod expiry;
mod formats;

use idempotency::{ContentHash, Fingerprint, Key, Scope, StoredResponse};
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};
use testkit::postgres::template;

const WINDOW_SECONDS: u64 = 60;
/// No statement here may wait for another transaction. One that waits fails instead of hanging.
const LOCK_TIMEOUT_MS: &str = "2000";

/// A new database with the shared tables.
async fn store() -> PgPool {
    let url = template::copy_for_test("idempotency", migrate)
        .await
        .unwrap();
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("lock_timeout", LOCK_TIMEOUT_MS)]);
    let pool = PgPoolOptions::new().max_connections(4);
    pool.connect_with(options).await.unwrap()
}

async fn migrate(url: String) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(&url).await?;
    sqlx::migrate!("../../migrations/idempotency")
        .run(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

fn key(name: &str) -> Key {
    Key::parse(name).unwrap()
}

fn scope(key: &Key) -> Scope<'_> {
    Scope {
        principal_id: "acme",
        route: "POST /orders",
        key,
    }
}

/// The fingerprint of a request whose body has this number.
fn fingerprint(number: i64) -> Fingerprint {
    let content = ContentHash::of(&json!({ "number": number }));
    Fingerprint::of(b"salt", "POST", "/orders", &content)
}

fn response() -> StoredResponse {
    StoredResponse {
        status: 201,
        headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
        body: b"any bytes: \x00\xff".to_vec(),
    }
}

async fn count(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from idempotency_keys")
        .fetch_one(pool)
        .await
        .unwrap()
}
