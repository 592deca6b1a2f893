//! R12: a reader knows every format that was ever written, and says so of one that it does not.

use idempotency::store::{Claim, claim, complete, find};
use idempotency::{Fingerprint, Key, StoredResponse};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{WINDOW_SECONDS, answer, fingerprint, key, scope, store};

/// A row as the first version of this crate wrote it, column by column.
const WRITTEN_BY_VERSION_1: &str = r#"
    update idempotency_keys set
        response_version = 1,
        response_status = 201,
        response_headers = '{"location": "/orders/7", "content-type": "application/json"}',
        response_body = '\x7b226f726465725f6964223a2237222c202262223a22c3a9227d'"#;

async fn claimed(pool: &PgPool, key: &Key, print: &Fingerprint) -> Option<Uuid> {
    let resource_id = Some(Uuid::new_v4());
    let mut connection = pool.acquire().await.unwrap();
    let claim = claim(
        &mut connection,
        scope(key),
        print,
        resource_id,
        WINDOW_SECONDS,
    );
    assert_eq!(claim.await.unwrap(), Claim::New);
    resource_id
}

async fn read(pool: &PgPool, key: &Key, print: &Fingerprint) -> Claim {
    let mut connection = pool.acquire().await.unwrap();
    let found = find(&mut connection, scope(key), print).await;
    found.unwrap().unwrap()
}

#[tokio::test]
async fn an_answer_written_by_version_1_is_given_again_byte_by_byte() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    claimed(&pool, &key, &print).await;
    sqlx::query(WRITTEN_BY_VERSION_1)
        .execute(&pool)
        .await
        .unwrap();
    let Claim::Completed(mut answer) = read(&pool, &key, &print).await else {
        panic!("not readable");
    };
    // An object has no order of its own.
    answer.headers.sort();
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = StoredResponse {
        status: 201,
        headers: vec![
            header("content-type", "application/json"),
            header("location", "/orders/7"),
        ],
        body: r#"{"order_id":"7", "b":"é"}"#.as_bytes().to_vec(),
    };
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn the_order_of_headers_and_repeated_names_survive() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    claimed(&pool, &key, &print).await;
    let headers = [("link", "<b>"), ("etag", "1"), ("link", "<a>")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let answer = StoredResponse {
        headers,
        ..answer()
    };
    let mut connection = pool.acquire().await.unwrap();
    complete(&mut connection, scope(&key), &answer)
        .await
        .unwrap();
    assert_eq!(read(&pool, &key, &print).await, Claim::Completed(answer));
    let version: i16 = sqlx::query_scalar("select response_version from idempotency_keys")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(version, 2);
}

#[tokio::test]
async fn an_answer_in_a_format_of_the_future_is_unreadable_and_names_its_resource() {
    let pool = store().await;
    let (key, print) = (key("k-1"), fingerprint(1));
    let resource_id = claimed(&pool, &key, &print).await;
    let mut connection = pool.acquire().await.unwrap();
    complete(&mut connection, scope(&key), &answer())
        .await
        .unwrap();
    sqlx::query("update idempotency_keys set response_version = $1")
        .bind(StoredResponse::VERSION + 1)
        .execute(&pool)
        .await
        .unwrap();
    let found = read(&pool, &key, &print).await;
    assert_eq!(found, Claim::Unreadable { resource_id });
}
