use outbox::{Backlog, Outcome, backlog};
use uuid::Uuid;

use crate::harness::{Harness, event};

async fn look(harness: &Harness) -> Backlog {
    backlog(&mut harness.pool.acquire().await.unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn what_waits_is_counted_with_the_age_of_the_first_until_it_is_published() {
    let harness = Harness::create().await;
    let (rows, oldest_seconds) = (0, 0.0);
    let nothing = Backlog {
        rows,
        oldest_seconds,
    };
    assert_eq!(look(&harness).await, nothing);

    harness
        .write(&[event(Uuid::new_v4(), 1), event(Uuid::new_v4(), 1)])
        .await;
    sqlx::query("update outbox set created_at = created_at - interval '90 seconds' where id = 1")
        .execute(&harness.pool)
        .await
        .unwrap();
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let waiting = look(&harness).await;
    assert_eq!(waiting.rows, 3);
    assert!(
        (90.0..120.0).contains(&waiting.oldest_seconds),
        "{waiting:?}"
    );

    let step = harness.relay(harness.settings()).try_publish_batch().await;
    assert_eq!(step.unwrap(), Outcome::Published(3));
    assert_eq!(look(&harness).await, nothing);
}
