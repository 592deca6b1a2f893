//! The principals of the demo. Never add them to a production database: their keys are public.

use sqlx::PgConnection;

use crate::{hash, store};

/// Principal ids and their API keys.
const PRINCIPALS: [(&str, &str); 2] = [("acme", "demo-key-acme"), ("globex", "demo-key-globex")];

/// Adds the principals and keys of the demo. Does nothing for those that exist.
pub async fn add_principals(connection: &mut PgConnection) -> sqlx::Result<()> {
    for (id, key) in PRINCIPALS {
        store::add(connection, id, &hash(key)).await?;
    }
    Ok(())
}
