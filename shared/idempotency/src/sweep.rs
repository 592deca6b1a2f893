//! Deletes expired keys as part of a service's reaper.

use service_kit::{Step, Swept, database};
use sqlx::PgPool;

use crate::store;

/// Largest number of records that one step deletes.
pub const SWEEP_ROWS_MAX: i64 = 1_000;

/// For [`service_kit::Reaper::sweep`]: deletes expired keys.
pub fn sweep(pool: &PgPool) -> impl Fn() -> Step + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = database::acquire(&pool).await?;
            let removed = store::reap(&mut connection, SWEEP_ROWS_MAX).await?;
            Ok(Swept::batch(removed, SWEEP_ROWS_MAX))
        })
    }
}
