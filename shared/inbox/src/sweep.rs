//! The sweep of processed messages, for a service's reaper.

use std::time::Duration;

use service_kit::{Step, Swept, database, retention};
use sqlx::PgPool;

use crate::processed;

/// For [`service_kit::Reaper::sweep`]: deletes the ids of messages that were processed longer ago
/// than the retention.
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
            let removed = processed::reap(&mut connection, older_than).await?;
            Ok(Swept::batch(removed, processed::REAP_ROWS_MAX))
        })
    }
}
