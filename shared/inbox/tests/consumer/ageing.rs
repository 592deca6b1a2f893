//! Old rows of `processed_messages` are deleted in bounded batches, by an index.

use std::time::Duration;

use inbox::processed::{REAP_ROWS_MAX, reap};

use crate::harness::Harness;

const WINDOW: Duration = Duration::from_secs(3_600);

async fn fill(harness: &Harness, rows: i64, age_seconds: f64) {
    sqlx::query(
        "insert into processed_messages (consumer_group, message_id, processed_at)
         select 'group', gen_random_uuid(), now() - make_interval(secs => $2)
         from generate_series(1, $1)",
    )
    .bind(rows)
    .bind(age_seconds)
    .execute(&harness.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn reap_deletes_only_old_rows_in_bounded_batches() {
    let harness = Harness::create().await;
    fill(&harness, 2 * REAP_ROWS_MAX + 7, 3_601.0).await;
    fill(&harness, 10, 3_000.0).await;
    let batch = REAP_ROWS_MAX as u64;
    let mut connection = harness.pool.acquire().await.unwrap();
    for expected in [batch, batch, 7, 0] {
        assert_eq!(reap(&mut connection, WINDOW).await.unwrap(), expected);
    }
    assert_eq!(harness.processed_count().await, 10);
}

#[tokio::test]
async fn reap_finds_its_batch_by_the_age_index() {
    let harness = Harness::create().await;
    fill(&harness, 50_000, 10.0).await;
    fill(&harness, 5_000, 3_601.0).await;
    sqlx::raw_sql("analyze processed_messages")
        .execute(&harness.pool)
        .await
        .unwrap();
    let plan: Vec<String> = sqlx::query_scalar(
        "explain (analyze, costs off, timing off, summary off)
         select ctid from processed_messages where processed_at < now() - interval '1 hour'
         order by processed_at limit 100 for update skip locked",
    )
    .fetch_all(&harness.pool)
    .await
    .unwrap();
    let plan = plan.join("\n");
    assert!(
        plan.contains("Index Scan using processed_messages_age"),
        "{plan}"
    );
    // The limit stops the scan: it does not read the other old rows.
    assert!(
        plan.contains("rows=100") && !plan.contains("rows=5000"),
        "{plan}"
    );
}
