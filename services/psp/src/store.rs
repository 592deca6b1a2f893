//! SQL, and nothing else: free functions over a connection that the caller owns.

pub mod charges;
pub mod requests;

use sqlx::migrate::Migrator;

/// This provider's tables.
pub fn migrator() -> Migrator {
    sqlx::migrate!("../../migrations/psp")
}
