//! Reports of reconciliations are deleted after their retention.

use std::time::Duration;

use payment::reconciler;
use service_kit::Reaper;

use crate::harness::Harness;

const RETENTION: Duration = Duration::from_secs(90 * 86_400);

#[tokio::test]
async fn old_reports_are_deleted_and_others_stay() {
    let harness = Harness::create().await;
    let reports = "insert into reconciliations (trigger, started_at)
                   select 'schedule', now() - n * interval '1 day'
                   from generate_series(330, 1, -1) as n";
    harness.execute(reports).await;
    let sweep = reconciler::sweep(&harness.pool, RETENTION);
    // One round of several steps.
    let reaper = Reaper::new(Duration::ZERO).sweep("reports", sweep);
    reaper.sweep_all().await;
    let left = "select count(*) from reconciliations";
    assert_eq!(harness.count(left).await, 89);
    reaper.sweep_all().await;
    assert_eq!(harness.count(left).await, 89);
}
