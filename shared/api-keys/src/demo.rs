//! The callers of the demo, known to every service that has callers.

use sqlx::PgConnection;

use crate::{hash, store};

/// Principals of the demo, each with its API key.
const PRINCIPALS: [(&str, &str); 2] = [("acme", "demo-key-acme"), ("globex", "demo-key-globex")];

/// Adds them; does nothing if they are there already.
pub async fn add_principals(connection: &mut PgConnection) -> sqlx::Result<()> {
    for (id, key) in PRINCIPALS {
        store::add(connection, id, &hash(key)).await?;
    }
    Ok(())
}
