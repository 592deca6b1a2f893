use payment::store::open_work::{self, OpenAttempts, OpenWork};
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG};
use crate::provider::{captures, first_answers, refunds};
use crate::rejections::reject;

async fn look(harness: &Harness) -> OpenWork {
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
async fn what_is_open_is_counted_by_status_and_what_is_settled_is_not() {
    let harness = Harness::create().await;
    assert_eq!(look(&harness).await, OpenWork::default());
    let order = harness.open_new().await;
    assert_eq!(counts(look(&harness).await), [1, 0, 0]);

    first_answers(&harness.psp, 1, ResponseTemplate::new(500)).await;
    captures(&harness.psp).await;
    step(&harness).await;
    assert_eq!(counts(look(&harness).await), [0, 1, 0]);
    step(&harness).await;
    assert_eq!(counts(look(&harness).await), [0, 0, 0]);

    reject(&harness, order, 1).await;
    assert_eq!(counts(look(&harness).await), [0, 0, 1]);
    refunds(&harness.psp).await;
    step(&harness).await;
    assert_eq!(counts(look(&harness).await), [0, 0, 0]);
}

#[tokio::test]
async fn the_age_is_that_of_the_oldest_of_its_status() {
    let harness = Harness::create().await;
    harness.open_new().await;
    harness
        .execute("update payments set created_at = now() - interval '300 seconds'")
        .await;
    harness.open_new().await;
    let OpenAttempts {
        count,
        oldest_seconds,
    } = look(&harness).await.pending;
    assert_eq!(count, 2);
    assert!((300.0..330.0).contains(&oldest_seconds), "{oldest_seconds}");
    assert_eq!(look(&harness).await.unknown, OpenAttempts::default());
}
