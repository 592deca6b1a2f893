//! Open attempts and refunds, for the metrics.

use service_kit::{Reading, database};
use sqlx::PgPool;
use telemetry::metric;

use crate::domain::AttemptStatus;
use crate::store::open_work;

/// Reads the gauges for [`service_kit::Gauges::read`]. All replicas report the same values, because they
/// share the tables.
pub fn gauge(pool: &PgPool) -> impl Fn() -> Reading + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let open = open_work::count(&mut *database::acquire(&pool).await?).await?;
            let attempts = [
                (AttemptStatus::Pending, open.pending),
                (AttemptStatus::Unknown, open.unknown),
            ];
            for (status, attempts) in attempts {
                let status = status.as_str();
                metrics::gauge!(metric::PAYMENTS_OPEN, "status" => status)
                    .set(attempts.count as f64);
                metrics::gauge!(metric::PAYMENTS_OLDEST_SECONDS, "status" => status)
                    .set(attempts.oldest_seconds);
            }
            metrics::gauge!(metric::REFUNDS_OPEN).set(open.refunds as f64);
            metrics::gauge!(metric::REFUNDS_FAILED).set(open.refunds_failed as f64);
            metrics::gauge!(metric::UNEXPLAINED_CHARGES).set(open.unexplained as f64);
            Ok(())
        })
    }
}
