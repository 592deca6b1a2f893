//! The gauge of parked messages.

use service_kit::{Reading, database};
use sqlx::PgPool;
use telemetry::metric;

use crate::parked::summary;

/// For [`service_kit::Gauges::read`]: counts parked messages in the table, up to
/// `COUNT_ROWS_MAX`. So the value is right on every replica, no matter which replica
/// parked or redrove them.
pub fn gauge(pool: &PgPool) -> impl Fn() -> Reading + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = database::acquire(&pool).await?;
            let count = summary::count(&mut connection).await?;
            metrics::gauge!(metric::INBOX_PARKED_MESSAGES).set(count as f64);
            Ok(())
        })
    }
}
