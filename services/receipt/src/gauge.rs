//! Mails that wait for an operator, for the metrics.

use service_kit::{Reading, database};
use sqlx::PgPool;
use telemetry::metric;

use crate::domain::Status;
use crate::store::operator;

/// Reads the gauge for [`service_kit::Gauges::read`]. All replicas report the same values, because they
/// share the table.
pub fn gauge(pool: &PgPool) -> impl Fn() -> Reading + Send + Sync + 'static {
    let pool = pool.clone();
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = database::acquire(&pool).await?;
            let waiting = Status::ALL.into_iter();
            for status in waiting.filter(|status| status.waits_for_operator()) {
                let count = operator::count(&mut connection, status).await?;
                metrics::gauge!(metric::MAILS_FOR_OPERATOR, "status" => status.as_str())
                    .set(count as f64);
            }
            Ok(())
        })
    }
}
