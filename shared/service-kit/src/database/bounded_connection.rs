//! A connection on loan from the pool, which gets it back within a limit or not at all.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Longest time that giving a connection back may take.
const RETURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Borrows a connection, waiting for a free one as long as the pool's settings allow.
pub async fn acquire(pool: &PgPool) -> sqlx::Result<BoundedConnection> {
    pool.acquire().await.map(BoundedConnection)
}

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

/// A connection that comes back is asked for a sign of life, and by itself the pool waits for it
/// without end. One that was given up in the middle of a statement, because the database is cut off,
/// would hold its place until TCP gives up, a quarter of an hour later; a pool full of such places
/// serves nobody, long after the database is back.
impl Drop for BoundedConnection {
    fn drop(&mut self) {
        if let Ok(runtime) = Handle::try_current() {
            // Past the limit the connection is dropped: it closes, and its place is free.
            runtime.spawn(timeout(RETURN_TIMEOUT, self.0.return_to_pool()));
        }
    }
}
