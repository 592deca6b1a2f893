//! The same request, sent many times.

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
    for response in join_all(sends).await {
        let response = response?;
        match response.status {
            201 => {
                created += usize::from(!response.replayed);
                ids.insert(response.order_id()?);
            }
            409 => assert!(response.retry_after.is_some(), "{}", response.summary()),
            _ => panic!("unexpected response {}", response.summary()),
        }
    }
    assert_eq!(
        created, 1,
        "one response is the original; the others are replays or 409"
    );
    // Every client that retries gets the same order.
    let again = join_all((0..PARALLEL).map(|_| harness.client.place(&key, &body))).await;
    for response in again {
        let response = response?;
        assert!(response.replayed, "{}", response.summary());
        ids.insert(response.order_id()?);
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
async fn clicks_with_one_reference_are_one_charge() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let body = order_body(1).replacen('{', r#"{"reference":"cart-4711","#, 1);
    let clicks = (0..10).map(|_| async {
        let response = harness.client.place(&new_key("click"), &body).await?;
        anyhow::ensure!(response.is_accepted(), "{}", response.summary());
        response.order_id()
    });
    let ids: Result<std::collections::HashSet<_>, _> = join_all(clicks).await.into_iter().collect();
    let ids = ids?;
    assert_eq!(ids.len(), 1, "ten clicks, one cart, one order");
    harness
        .expect_shipped_once(&ids.into_iter().collect::<Vec<_>>())
        .await?;
    harness.stop().await
}
