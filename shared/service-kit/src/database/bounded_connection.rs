//! A pool connection that may be dropped in the middle of a statement without blocking the pool.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Longest time for returning a connection to the pool.
const RETURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes a connection from the pool. Waits for a free one as long as the pool's settings allow.
pub async fn acquire(pool: &PgPool) -> sqlx::Result<BoundedConnection> {
    pool.acquire().await.map(BoundedConnection)
}

/// A connection that returns to the pool within a time limit, or is closed.
#[derive(Debug)]
pub struct BoundedConnection(PoolConnection<Postgres>);

impl Deref for BoundedConnection {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.0
    }
}

impl DerefMut for BoundedConnection {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.0
    }
}

/// The pool pings a connection that is returned, and waits for the response without a limit. If the
/// database is cut off in the middle of a statement, that wait lasts until TCP gives up, about 15
/// minutes. Until then the connection counts as used, and a pool full of such connections serves no
/// requests, even after the database is back.
impl Drop for BoundedConnection {
    fn drop(&mut self) {
        if let Ok(runtime) = Handle::try_current() {
            // After the limit the connection is dropped: it closes, and the pool may open another.
            runtime.spawn(timeout(RETURN_TIMEOUT, self.0.return_to_pool()));
        }
    }
}
