//! From a free key to a stored response, with one request and with several in parallel.

use idempotency::Scope;
use idempotency::store::{Claim, claim, complete, find};
use uuid::Uuid;

use crate::{WINDOW_SECONDS, count, fingerprint, key, response, scope, store};

#[tokio::test]
async fn completed_key_replays_its_response() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let mut tx = pool.begin().await.unwrap();
    let claimed = claim(&mut tx, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
    complete(&mut tx, scope(&key), &response()).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = pool.begin().await.unwrap();
    let again = claim(&mut tx, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(again.unwrap(), Claim::Completed(response()));
    let found = find(&mut tx, scope(&key), &print).await.unwrap();
    assert_eq!(found, Some(Claim::Completed(response())));
    assert_eq!(count(&pool).await, 1);
}

#[tokio::test]
async fn rollback_frees_the_key() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let mut tx = pool.begin().await.unwrap();
    let claimed = claim(&mut tx, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
    complete(&mut tx, scope(&key), &response()).await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(count(&pool).await, 0);
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(find(&mut tx, scope(&key), &print).await.unwrap(), None);
    let claimed = claim(&mut tx, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
}

#[tokio::test]
async fn concurrent_claim_is_in_flight_without_waiting() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let mut first = pool.begin().await.unwrap();
    let claimed = claim(&mut first, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);

    // The first transaction is still open. A second claim that waits for it fails by lock timeout.
    let mut second = pool.begin().await.unwrap();
    for print in [print, fingerprint(2)] {
        let claimed = claim(&mut second, scope(&key), &print, None, WINDOW_SECONDS).await;
        assert_eq!(claimed.unwrap(), Claim::InFlight { resource_id: None });
    }
    second.rollback().await.unwrap();

    complete(&mut first, scope(&key), &response())
        .await
        .unwrap();
    first.commit().await.unwrap();
    let mut third = pool.begin().await.unwrap();
    let claimed = claim(&mut third, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::Completed(response()));
}

#[tokio::test]
async fn claim_without_a_response_is_in_flight() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let resource_id = Some(Uuid::new_v4());
    let mut tx = pool.begin().await.unwrap();
    let claimed = claim(&mut tx, scope(&key), &print, resource_id, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
    tx.commit().await.unwrap();

    let mut tx = pool.begin().await.unwrap();
    let again = claim(&mut tx, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(again.unwrap(), Claim::InFlight { resource_id });
    complete(&mut tx, scope(&key), &response()).await.unwrap();
    let found = find(&mut tx, scope(&key), &print).await.unwrap();
    assert_eq!(found, Some(Claim::Completed(response())));
}

#[tokio::test]
async fn different_request_with_the_same_key_is_a_mismatch() {
    let pool = store().await;
    let key = key("k-1");
    let mut tx = pool.begin().await.unwrap();
    let claimed = claim(&mut tx, scope(&key), &fingerprint(1), None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
    for _ in 0..2 {
        let other = claim(&mut tx, scope(&key), &fingerprint(2), None, WINDOW_SECONDS).await;
        assert_eq!(other.unwrap(), Claim::Mismatch);
    }
    let found = find(&mut tx, scope(&key), &fingerprint(2)).await.unwrap();
    assert_eq!(found, Some(Claim::Mismatch));
}

#[tokio::test]
async fn principals_and_routes_do_not_share_keys() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let mut tx = pool.begin().await.unwrap();
    for (principal_id, route) in [
        ("acme", "POST /orders"),
        ("globex", "POST /orders"),
        ("acme", "POST /payments"),
    ] {
        let scope = Scope {
            principal_id,
            route,
            key: &key,
        };
        let claimed = claim(&mut tx, scope, &print, None, WINDOW_SECONDS).await;
        assert_eq!(claimed.unwrap(), Claim::New, "{principal_id} {route}");
    }
    tx.commit().await.unwrap();
    assert_eq!(count(&pool).await, 3);
}
