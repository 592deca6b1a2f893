//! Drives against stubs of the order service.

use super::*;
use testkit::eventually;
use testkit::order_stub::{self as stub, Flaw};

const ORDERS: u64 = 60;

async fn drive_stub(flaw: Flaw, arrivals: Arrivals, mix: Mix) -> DriveResult {
    let plan = Plan {
        arrivals,
        stop_after: StopAfter::Accepted(ORDERS),
        mix,
    };
    run(plan, vec![stub::start(flaw).await], Arc::default())
        .await
        .unwrap()
}

fn mix(retry_share: f64, duplicate_share: f64, hangup_share: f64) -> Mix {
    Mix {
        retry_share,
        duplicate_share,
        hangup_share,
    }
}

#[tokio::test]
async fn every_kind_of_customer_gets_one_accepted_order() {
    let arrivals = Arrivals::ClosedLoop { clients: 4 };
    let tally = drive_stub(Flaw::None, arrivals, mix(0.3, 0.3, 0.2))
        .await
        .tally;
    let ids: std::collections::HashSet<_> = tally.orders.iter().map(|order| order.id).collect();
    assert_eq!(ids.len(), tally.orders.len());
    assert_eq!(tally.counts.sent, tally.orders.len() as u64);
    assert_eq!((tally.counts.contradicted, tally.counts.unresolved), (0, 0));
    assert!(tally.counts.retried > 0 && tally.counts.duplicated > 0 && tally.counts.hung_up > 0);
}

#[tokio::test]
async fn missing_replays_count_as_contradictions() {
    let arrivals = Arrivals::ClosedLoop { clients: 2 };
    let retried = drive_stub(Flaw::NeverReplays, arrivals, mix(1.0, 0.0, 0.0))
        .await
        .tally
        .counts;
    assert_eq!(retried.contradicted, retried.retried);
    let duplicated = drive_stub(Flaw::NeverReplays, arrivals, mix(0.0, 1.0, 0.0))
        .await
        .tally
        .counts;
    assert_eq!(duplicated.contradicted, duplicated.duplicated);
    assert!(retried.retried > 0 && duplicated.duplicated > 0);
}

#[tokio::test]
async fn open_loop_keeps_its_schedule() {
    let result = drive_stub(
        Flaw::None,
        Arrivals::OpenLoop { rate_per_s: 200.0 },
        mix(0.0, 0.0, 0.0),
    )
    .await;
    // 60 orders at 200 per second are due within 295 ms; the next one ends the drive.
    assert!(
        result.window >= Duration::from_millis(290),
        "{:?}",
        result.window
    );
    assert_eq!(result.tally.counts.sent, result.tally.orders.len() as u64);
}

/// With Ctrl-C the caller drops the drive. A closed loop that waits for more orders must not keep the program
/// from ending.
#[tokio::test]
async fn cancelled_drive_ends_its_thread() {
    let accepted = Arc::new(AtomicU64::new(0));
    let plan = Plan {
        arrivals: Arrivals::ClosedLoop { clients: 2 },
        stop_after: StopAfter::Accepted(u64::MAX),
        mix: mix(0.0, 0.0, 0.0),
    };
    let urls = vec![stub::start(Flaw::None).await];
    let driving = tokio::spawn(run(plan, urls, Arc::clone(&accepted)));
    eventually("an order is accepted", async || {
        accepted.load(Ordering::Relaxed) > 0
    })
    .await;
    driving.abort();
    eventually("nothing sends any more", async || {
        Arc::strong_count(&accepted) == 1
    })
    .await;
}
