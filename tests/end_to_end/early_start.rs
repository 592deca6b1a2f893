//! Fulfilment is started on its restored database before the recall.

use std::time::Duration;

use endpoints::Service;

use crate::gauges::wait_for;
use crate::harness::Harness;

const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The sessions of a process that has ended may outlive it for a moment.
const SESSIONS: &str = "select count(*) from pg_stat_activity
     where datname = current_database() and application_name = 'fulfilment'";

/// Starts fulfilment, waits until it has tried to process messages, and stops it. It adds no decision to those
/// of the backup.
pub(crate) async fn expect_no_decisions(harness: &Harness, decided: usize) -> anyhow::Result<()> {
    let fulfilment = Service::Fulfilment.name();
    harness.system.start_service(fulfilment).await?;
    harness.system.wait_ready(fulfilment, READY_TIMEOUT).await?;
    let tried = "inbox_retries_total";
    wait_for(harness, Service::Fulfilment, tried, |tries| tries > 0.0).await?;
    harness.system.stop_service(fulfilment).await?;
    harness
        .wait_for_count(Service::Fulfilment, SESSIONS, 0)
        .await?;
    let decisions: i64 = sqlx::query_scalar("select count(*) from shipments")
        .fetch_one(&harness.databases.fulfilment)
        .await?;
    assert_eq!(
        usize::try_from(decisions)?,
        decided,
        "decided before the recall"
    );
    Ok(())
}
