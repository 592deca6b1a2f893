//! What is parked, for the metrics.

use service_kit::Reading;
use sqlx::PgPool;

use crate::work;

/// For [`service_kit::Gauges::read`]: how many messages are parked, whichever replica parked or
/// redrove them.
pub fn gauge(pool: &PgPool) -> impl Fn() -> Reading + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            work::measure_parked(&pool).await;
            Ok(())
        })
    }
}
