use outbox::{Outcome, enqueue};
use sqlx::PgPool;
use uuid::Uuid;

use crate::harness::{Harness, event};

/// What many write first: everything after the last id that was seen.
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
async fn a_row_that_commits_late_is_lost_by_a_cursor_and_published_by_the_relay() {
    let harness = Harness::create().await;
    let (late, early) = (event(Uuid::new_v4(), 1), event(Uuid::new_v4(), 1));
    let mut cursor = CursorRelay { last: 0 };
    let mut relay = harness.relay(harness.settings());

    // The first number is taken by a transaction that stays open while the second commits.
    let mut slow = harness.pool.begin().await.unwrap();
    enqueue(&mut slow, std::slice::from_ref(&late))
        .await
        .unwrap();
    harness.write(std::slice::from_ref(&early)).await;
    assert_eq!(cursor.publish(&harness.pool).await, [early.id]);
    let step = relay.try_publish_batch().await.unwrap();
    assert_eq!(step, Outcome::Published(1));

    slow.commit().await.unwrap();
    assert!(
        cursor.publish(&harness.pool).await.is_empty(),
        "lost for ever"
    );
    let step = relay.try_publish_batch().await.unwrap();
    assert_eq!(step, Outcome::Published(1));
    let mut published = harness.ids().await;
    let mut written = vec![late.id.to_string(), early.id.to_string()];
    published.sort();
    written.sort();
    assert_eq!(published, written);
}

#[tokio::test]
async fn what_is_rolled_back_is_never_published() {
    let harness = Harness::create().await;
    let mut tx = harness.pool.begin().await.unwrap();
    enqueue(&mut tx, &[event(Uuid::new_v4(), 1)]).await.unwrap();
    tx.rollback().await.unwrap();
    let step = harness.relay(harness.settings()).try_publish_batch().await;
    assert_eq!(step.unwrap(), Outcome::Idle);
    assert!(harness.ids().await.is_empty());
}
