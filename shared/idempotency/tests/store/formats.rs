//! Formats of stored responses: every version ever written is readable, a newer one is reported.

use idempotency::store::{Claim, claim, complete, find};
use idempotency::{Fingerprint, Key, StoredResponse};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{WINDOW_SECONDS, fingerprint, key, response, scope, store};

/// A row as version 1 of the format wrote it, column by column.
const WRITTEN_BY_VERSION_1: &str = r#"
    update idempotency_keys set
        response_version = 1,
        response_status = 201,
        response_headers = '{"location": "/orders/7", "content-type": "application/json"}',
        response_body = '\x7b226f726465725f6964223a2237222c202262223a22c3a9227d'"#;

async fn claimed(pool: &PgPool, key: &Key, fingerprint: &Fingerprint) -> Option<Uuid> {
    let resource_id = Some(Uuid::new_v4());
    let mut connection = pool.acquire().await.unwrap();
    let claim = claim(
        &mut connection,
        scope(key),
        fingerprint,
        resource_id,
        WINDOW_SECONDS,
    );
    assert_eq!(claim.await.unwrap(), Claim::New);
    resource_id
}

async fn read(pool: &PgPool, key: &Key, fingerprint: &Fingerprint) -> Claim {
    let mut connection = pool.acquire().await.unwrap();
    let found = find(&mut connection, scope(key), fingerprint).await;
    found.unwrap().unwrap()
}

#[tokio::test]
async fn response_of_version_1_is_replayed() {
    let pool = store().await;
    let (key, fingerprint) = (key("k-1"), fingerprint(1));
    claimed(&pool, &key, &fingerprint).await;
    sqlx::query(WRITTEN_BY_VERSION_1)
        .execute(&pool)
        .await
        .unwrap();
    let Claim::Completed(mut response) = read(&pool, &key, &fingerprint).await else {
        panic!("the response must be readable");
    };
    // The members of an object are unordered.
    response.headers.sort();
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = StoredResponse {
        status: 201,
        headers: vec![
            header("content-type", "application/json"),
            header("location", "/orders/7"),
        ],
        body: r#"{"order_id":"7", "b":"é"}"#.as_bytes().to_vec(),
    };
    assert_eq!(response, expected);
}

#[tokio::test]
async fn header_order_and_repeated_names_are_kept() {
    let pool = store().await;
    let (key, fingerprint) = (key("k-1"), fingerprint(1));
    claimed(&pool, &key, &fingerprint).await;
    let headers = [("link", "<b>"), ("etag", "1"), ("link", "<a>")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let response = StoredResponse {
        headers,
        ..response()
    };
    let mut connection = pool.acquire().await.unwrap();
    complete(&mut connection, scope(&key), &response)
        .await
        .unwrap();
    assert_eq!(
        read(&pool, &key, &fingerprint).await,
        Claim::Completed(response)
    );
    let version: i16 = sqlx::query_scalar("select response_version from idempotency_keys")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(version, 2);
}

#[tokio::test]
async fn response_of_a_newer_version_is_unreadable() {
    let pool = store().await;
    let (key, fingerprint) = (key("k-1"), fingerprint(1));
    let resource_id = claimed(&pool, &key, &fingerprint).await;
    let mut connection = pool.acquire().await.unwrap();
    complete(&mut connection, scope(&key), &response())
        .await
        .unwrap();
    sqlx::query("update idempotency_keys set response_version = $1")
        .bind(StoredResponse::VERSION + 1)
        .execute(&pool)
        .await
        .unwrap();
    let found = read(&pool, &key, &fingerprint).await;
    assert_eq!(found, Claim::Unreadable { resource_id });
}
