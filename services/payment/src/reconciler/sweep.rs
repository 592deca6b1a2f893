//! Deletes old reports as part of the service's reaper.

use std::time::Duration;

use service_kit::{Step, Swept, database};
use sqlx::PgPool;

use crate::store::reconciliations::{self, REAP_ROWS_MAX};

/// For [`service_kit::Reaper::sweep`]: deletes reports that are older than the retention.
pub fn sweep(pool: &PgPool, retention: Duration) -> impl Fn() -> Step + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = database::acquire(&pool).await?;
            let removed = reconciliations::reap(&mut connection, retention).await?;
            Ok(Swept::batch(removed, REAP_ROWS_MAX))
        })
    }
}
