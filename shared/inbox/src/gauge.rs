//! The gauge of parked messages.

use service_kit::Reading;
use sqlx::PgPool;

use crate::processor;

/// For [`service_kit::Gauges::read`]: counts parked messages in the table. So the value is right on
/// every replica, no matter which replica parked or redrove them.
pub fn gauge(pool: &PgPool) -> impl Fn() -> Reading + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            processor::measure_parked(&pool).await;
            Ok(())
        })
    }
}
