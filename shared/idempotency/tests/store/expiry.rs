//! Expiry: a key is valid for its window, then it is forgotten on demand or reaped in batches.

use idempotency::Key;
use idempotency::store::{Claim, claim, complete, find, forget_expired, reap};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{WINDOW_SECONDS, count, fingerprint, key, response, scope, store};

async fn complete_key(pool: &PgPool, key: &Key) {
    let mut tx = pool.begin().await.unwrap();
    let claimed = claim(&mut tx, scope(key), &fingerprint(1), None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
    complete(&mut tx, scope(key), &response()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Makes the key expire this many seconds ago.
async fn expire(pool: &PgPool, key: &Key, seconds: i32) {
    sqlx::query(
        "update idempotency_keys set expires_at = now() - make_interval(secs => $2)
         where key = $1",
    )
    .bind(key.as_str())
    .bind(f64::from(seconds))
    .execute(pool)
    .await
    .unwrap();
}

async fn remaining(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar("select key from idempotency_keys order by key")
        .fetch_all(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn record_expires_after_its_window() {
    let pool = store().await;
    complete_key(&pool, &key("k-1")).await;
    let seconds: f64 = sqlx::query_scalar(
        "select extract(epoch from expires_at - created_at)::float8 from idempotency_keys",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(seconds, WINDOW_SECONDS as f64);
}

#[tokio::test]
async fn expired_key_is_free_once_forgotten() {
    let pool = store().await;
    let key = key("k-1");
    complete_key(&pool, &key).await;
    expire(&pool, &key, 0).await;
    let mut tx = pool.begin().await.unwrap();
    for print in [fingerprint(1), fingerprint(2)] {
        let met = claim(&mut tx, scope(&key), &print, None, WINDOW_SECONDS).await;
        assert_eq!(met.unwrap(), Claim::Expired);
        let found = find(&mut tx, scope(&key), &print).await.unwrap();
        assert_eq!(found, Some(Claim::Expired));
    }
    forget_expired(&mut tx, scope(&key)).await.unwrap();
    let claimed = claim(&mut tx, scope(&key), &fingerprint(2), None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
}

#[tokio::test]
async fn valid_key_is_not_forgotten() {
    let pool = store().await;
    let key = key("k-1");
    complete_key(&pool, &key).await;
    let mut connection = pool.acquire().await.unwrap();
    forget_expired(&mut connection, scope(&key)).await.unwrap();
    let found = find(&mut connection, scope(&key), &fingerprint(1)).await;
    assert_eq!(found.unwrap(), Some(Claim::Completed(response())));
}

#[tokio::test]
async fn key_in_flight_never_expires() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let resource_id = Some(Uuid::new_v4());
    let mut tx = pool.begin().await.unwrap();
    let claimed = claim(&mut tx, scope(&key), &print, resource_id, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
    tx.commit().await.unwrap();
    expire(&pool, &key, 3_600).await;

    let mut connection = pool.acquire().await.unwrap();
    forget_expired(&mut connection, scope(&key)).await.unwrap();
    assert_eq!(reap(&mut connection, 10).await.unwrap(), 0);
    let found = find(&mut connection, scope(&key), &print).await.unwrap();
    assert_eq!(found, Some(Claim::InFlight { resource_id }));
    let other = find(&mut connection, scope(&key), &fingerprint(2)).await;
    assert_eq!(other.unwrap(), Some(Claim::Mismatch));
}

#[tokio::test]
async fn late_response_is_valid_for_a_whole_window() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let mut tx = pool.begin().await.unwrap();
    let claimed = claim(&mut tx, scope(&key), &print, None, WINDOW_SECONDS).await;
    assert_eq!(claimed.unwrap(), Claim::New);
    tx.commit().await.unwrap();
    let long_ago = "update idempotency_keys set created_at = created_at - interval '1 day',
                    expires_at = expires_at - interval '1 day'";
    sqlx::query(long_ago).execute(&pool).await.unwrap();

    let mut connection = pool.acquire().await.unwrap();
    complete(&mut connection, scope(&key), &response())
        .await
        .unwrap();
    let found = find(&mut connection, scope(&key), &print).await.unwrap();
    assert_eq!(found, Some(Claim::Completed(response())));
    let left = "select extract(epoch from expires_at - now())::float8 from idempotency_keys";
    let left: f64 = sqlx::query_scalar(left).fetch_one(&pool).await.unwrap();
    let window = WINDOW_SECONDS as f64;
    assert!((window - 30.0..=window).contains(&left), "{left}");
}

#[tokio::test]
async fn reaper_deletes_the_oldest_first_up_to_its_batch() {
    let pool = store().await;
    let keys = ["k-1", "k-2", "k-3", "k-4", "k-5"].map(key);
    for (age, key) in (0..).zip(&keys) {
        complete_key(&pool, key).await;
        expire(&pool, key, age * 10).await;
    }
    complete_key(&pool, &key("k-live")).await;
    let mut connection = pool.acquire().await.unwrap();
    assert_eq!(reap(&mut connection, 2).await.unwrap(), 2);
    assert_eq!(remaining(&pool).await, ["k-1", "k-2", "k-3", "k-live"]);
    assert_eq!(reap(&mut connection, 2).await.unwrap(), 2);
    assert_eq!(reap(&mut connection, 2).await.unwrap(), 1);
    assert_eq!(reap(&mut connection, 2).await.unwrap(), 0);
    assert_eq!(remaining(&pool).await, ["k-live"]);
}

#[tokio::test]
async fn concurrent_reapers_skip_each_others_rows() {
    let pool = store().await;
    for name in ["k-1", "k-2", "k-3"].map(key) {
        complete_key(&pool, &name).await;
        expire(&pool, &name, 1).await;
    }
    let mut first = pool.begin().await.unwrap();
    assert_eq!(reap(&mut first, 2).await.unwrap(), 2);
    // The first transaction is still open. A second reaper that waits for its rows fails.
    let mut second = pool.begin().await.unwrap();
    assert_eq!(reap(&mut second, 2).await.unwrap(), 1);
    second.commit().await.unwrap();
    first.commit().await.unwrap();
    assert_eq!(count(&pool).await, 0);
}
