//! The same request, many times.

use endpoints::client::{new_key, order_body};
use futures_util::future::join_all;

use crate::harness::{Harness, options};

const PARALLEL: usize = 50;

#[tokio::test]
async fn fifty_parallel_duplicates_make_one_order_and_one_charge() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let (key, body) = (new_key("parallel"), order_body(2));
    let sends = (0..PARALLEL).map(|_| harness.client.send(Some(&key), &body));
    let mut created = 0;
    let mut ids = std::collections::HashSet::new();
    for answer in join_all(sends).await {
        let answer = answer?;
        match answer.status {
            201 => {
                created += usize::from(!answer.replayed);
                ids.insert(answer.order_id()?);
            }
            409 => assert!(answer.retry_after.is_some(), "{}", answer.summary()),
            _ => panic!("unexpected answer {}", answer.summary()),
        }
    }
    assert_eq!(
        created, 1,
        "one answer is the original, the others are replays or in flight"
    );
    // Every caller that was told to come back gets the same order.
    let again = join_all((0..PARALLEL).map(|_| harness.client.place(&key, &body))).await;
    for answer in again {
        let answer = answer?;
        assert!(answer.replayed, "{}", answer.summary());
        ids.insert(answer.order_id()?);
    }
    assert_eq!(ids.len(), 1);
    let orders: i64 = sqlx::query_scalar("select count(*) from orders")
        .fetch_one(&harness.databases.order)
        .await?;
    assert_eq!(orders, 1);
    harness
        .expect_shipped_once(&ids.into_iter().collect::<Vec<_>>())
        .await?;
    harness.stop().await
}

#[tokio::test]
async fn two_clicks_under_two_keys_with_one_reference_are_one_charge() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let body = order_body(1).replacen('{', r#"{"reference":"cart-4711","#, 1);
    let clicks = (0..10).map(|_| async {
        let answer = harness.client.place(&new_key("click"), &body).await?;
        anyhow::ensure!(answer.is_accepted(), "{}", answer.summary());
        answer.order_id()
    });
    let ids: Result<std::collections::HashSet<_>, _> = join_all(clicks).await.into_iter().collect();
    let ids = ids?;
    assert_eq!(ids.len(), 1, "ten clicks, one cart, one order");
    harness
        .expect_shipped_once(&ids.into_iter().collect::<Vec<_>>())
        .await?;
    harness.stop().await
}
