//! The ledger's part of a service's reaper.

use std::time::Duration;

use service_kit::{Step, Swept, database, retention};
use sqlx::PgPool;

use crate::ledger;

/// For [`service_kit::Reaper::sweep`]: forgets messages that were processed too long ago.
pub fn sweep(
    pool: &PgPool,
    settings: &retention::Settings,
) -> impl Fn() -> Step + Send + Sync + 'static {
    let pool = pool.clone();
    let older_than = Duration::from_secs(settings.processed_retention_seconds);
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = database::acquire(&pool).await?;
            let removed = ledger::reap(&mut connection, older_than).await?;
            Ok(Swept::batch(removed, ledger::REAP_ROWS_MAX))
        })
    }
}
