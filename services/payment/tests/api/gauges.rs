//! The gauges of open attempts and refunds.

use payment::store::open_work::{self, OpenAttempts, OpenWork};
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG};
use crate::provider::{mount_captures, mount_first_charge_responses, mount_refunds};
use crate::rejections::reject;

async fn open_work(harness: &Harness) -> OpenWork {
    open_work::count(&mut harness.pool.acquire().await.unwrap())
        .await
        .unwrap()
}

async fn step(harness: &Harness) {
    harness.pass_time().await;
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap();
}

fn counts(open: OpenWork) -> [i64; 3] {
    [open.pending.count, open.unknown.count, open.refunds]
}

#[tokio::test]
async fn open_work_is_counted_by_status_until_it_is_settled() {
    let harness = Harness::create().await;
    assert_eq!(open_work(&harness).await, OpenWork::default());
    let order = harness.open_new().await;
    assert_eq!(counts(open_work(&harness).await), [1, 0, 0]);

    mount_first_charge_responses(&harness.psp, 1, ResponseTemplate::new(500)).await;
    mount_captures(&harness.psp).await;
    step(&harness).await;
    assert_eq!(counts(open_work(&harness).await), [0, 1, 0]);
    step(&harness).await;
    assert_eq!(counts(open_work(&harness).await), [0, 0, 0]);

    reject(&harness, order, 1).await;
    assert_eq!(counts(open_work(&harness).await), [0, 0, 1]);
    mount_refunds(&harness.psp).await;
    step(&harness).await;
    assert_eq!(counts(open_work(&harness).await), [0, 0, 0]);
}

#[tokio::test]
async fn age_is_that_of_the_oldest_attempt_of_its_status() {
    let harness = Harness::create().await;
    harness.open_new().await;
    harness
        .execute("update payments set created_at = now() - interval '300 seconds'")
        .await;
    harness.open_new().await;
    let OpenAttempts {
        count,
        oldest_seconds,
    } = open_work(&harness).await.pending;
    assert_eq!(count, 2);
    assert!((300.0..330.0).contains(&oldest_seconds), "{oldest_seconds}");
    assert_eq!(open_work(&harness).await.unknown, OpenAttempts::default());
}
