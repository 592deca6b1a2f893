//! Rows that commit late are published, and rows that roll back are not.

use outbox::{StepOutcome, enqueue};
use sqlx::PgPool;
use uuid::Uuid;

use crate::harness::{Harness, event};

/// The naive relay: publishes everything after the last id it has seen.
struct CursorRelay {
    last: i64,
}

impl CursorRelay {
    async fn publish(&mut self, pool: &PgPool) -> Vec<Uuid> {
        let rows: Vec<(i64, Uuid)> =
            sqlx::query_as("select id, event_id from outbox where id > $1 order by id")
                .bind(self.last)
                .fetch_all(pool)
                .await
                .unwrap();
        self.last = rows.last().map_or(self.last, |(id, _)| *id);
        rows.into_iter().map(|(_, event_id)| event_id).collect()
    }
}

#[tokio::test]
async fn late_commit_is_missed_by_a_cursor_and_found_by_the_relay() {
    let harness = Harness::create().await;
    let (late, early) = (event(Uuid::new_v4(), 1), event(Uuid::new_v4(), 1));
    let mut cursor = CursorRelay { last: 0 };
    let mut relay = harness.relay(harness.settings());

    // The transaction with the first id stays open while the second one commits.
    let mut slow = harness.pool.begin().await.unwrap();
    enqueue(&mut slow, std::slice::from_ref(&late))
        .await
        .unwrap();
    harness.write(std::slice::from_ref(&early)).await;
    assert_eq!(cursor.publish(&harness.pool).await, [early.id]);
    let step = relay.step().await.unwrap();
    assert_eq!(step, StepOutcome::Published(1));

    slow.commit().await.unwrap();
    assert!(
        cursor.publish(&harness.pool).await.is_empty(),
        "the cursor has missed the row"
    );
    let step = relay.step().await.unwrap();
    assert_eq!(step, StepOutcome::Published(1));
    let mut published = harness.ids().await;
    let mut written = vec![late.id.to_string(), early.id.to_string()];
    published.sort();
    written.sort();
    assert_eq!(published, written);
}

#[tokio::test]
async fn rolled_back_event_is_never_published() {
    let harness = Harness::create().await;
    let mut tx = harness.pool.begin().await.unwrap();
    enqueue(&mut tx, &[event(Uuid::new_v4(), 1)]).await.unwrap();
    tx.rollback().await.unwrap();
    let step = harness.relay(harness.settings()).step().await;
    assert_eq!(step.unwrap(), StepOutcome::Idle);
    assert!(harness.ids().await.is_empty());
}
