//! The backlog counts unpublished rows and the age of the oldest one.

use outbox::{Backlog, StepOutcome, backlog};
use uuid::Uuid;

use crate::harness::{Harness, event};

async fn read_backlog(harness: &Harness) -> Backlog {
    backlog(&mut harness.pool.acquire().await.unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn backlog_counts_unpublished_rows_and_their_age() {
    let harness = Harness::create().await;
    let (rows, oldest_seconds) = (0, 0.0);
    let nothing = Backlog {
        rows,
        oldest_seconds,
    };
    assert_eq!(read_backlog(&harness).await, nothing);

    harness
        .write(&[event(Uuid::new_v4(), 1), event(Uuid::new_v4(), 1)])
        .await;
    sqlx::query("update outbox set created_at = created_at - interval '90 seconds' where id = 1")
        .execute(&harness.pool)
        .await
        .unwrap();
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let waiting = read_backlog(&harness).await;
    assert_eq!(waiting.rows, 3);
    assert!(
        (90.0..120.0).contains(&waiting.oldest_seconds),
        "{waiting:?}"
    );

    let step = harness.relay(harness.settings()).step().await;
    assert_eq!(step.unwrap(), StepOutcome::Published(3));
    assert_eq!(read_backlog(&harness).await, nothing);
}
