//! Several requests in one commit, put there on purpose: the queue is filled before a writer runs.

use std::sync::Arc;

use api_keys::Principal;
use events::{Envelope, OrderPlaced, Origin};
use futures_util::future::join_all;
use idempotency::{ContentHash, Fingerprint, Key};
use order::domain::Draft;
use order::intake::{Intake, Settings, Unavailable, Verdict};
use order::routes::view;
use order::store::intake::{KeyClaim, NewOrder};
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use crate::service::{migrated, order, order_with, pool};

/// Submits all of them, then lets one writer at them: one batch.
async fn store_at_once(pool: &PgPool, orders: Vec<NewOrder>) -> Vec<Result<Verdict, Unavailable>> {
    let settings = Settings {
        queue_max: orders.len(),
        batch_max: orders.len(),
        writers: 1,
        window_seconds: 60,
    };
    let (intake, mut writers) = Intake::new(&settings, pool, &outbox::Wake::default());
    let verdicts = join_all(orders.into_iter().map(|order| intake.submit(order)));
    tokio::select! {
        biased;
        verdicts = verdicts => verdicts,
        _ = writers.remove(0).run() => panic!("the queue is open, so the writer goes on"),
    }
}

fn request(id: Uuid, key: Option<&str>, body: &Value) -> NewOrder {
    let content_hash = ContentHash::of(body);
    let draft = Draft::check(serde_json::from_value(body.clone()).unwrap()).unwrap();
    let event = OrderPlaced {
        v: 1,
        order_id: id,
        attempt: 1,
        customer_id: draft.customer_id.clone(),
        amount: draft.total.amount(),
        currency: draft.total.currency(),
        payment_method: draft.payment_method.to_string(),
        lines: draft.lines(),
    };
    let origin = Origin {
        source: "order",
        correlation_id: "c-1",
        traceparent: None,
    };
    NewOrder {
        id,
        principal: Arc::new(Principal {
            id: "acme".to_owned(),
            fingerprint_salt: vec![],
        }),
        claim: key.map(|key| KeyClaim {
            route: "POST /orders",
            key: Key::parse(key).unwrap(),
            fingerprint: Fingerprint::of(&[], "POST", "/orders", &content_hash),
        }),
        answer: view::of_new_order(id, &draft),
        event: Envelope::seal(origin, &event).unwrap(),
        content_hash,
        draft,
    }
}

async fn count(pool: &PgPool, table: &str) -> i64 {
    let query = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn two_puts_of_one_id_in_one_batch_make_one_order() {
    let pool = pool(&migrated().await);
    let id = Uuid::new_v4();
    let other = order_with("customer_id", "cust-89");
    let batch = vec![request(id, None, &order()), request(id, None, &other)];
    let verdicts = store_at_once(&pool, batch).await;
    assert!(
        matches!(verdicts[0], Ok(Verdict::Placed(_))),
        "{verdicts:?}"
    );
    assert!(matches!(verdicts[1], Ok(Verdict::Known(_))), "{verdicts:?}");
    let customer: String = sqlx::query_scalar("select customer_id from orders")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(customer, "cust-88");
    assert_eq!(count(&pool, "order_items").await, 1);
    assert_eq!(count(&pool, "outbox").await, 1);
}

#[tokio::test]
async fn one_key_twice_in_one_batch_makes_one_order() {
    let pool = pool(&migrated().await);
    let post = || request(Uuid::now_v7(), Some("k-1"), &order());
    let verdicts = store_at_once(&pool, vec![post(), post()]).await;
    assert!(
        matches!(verdicts[0], Ok(Verdict::Placed(_))),
        "{verdicts:?}"
    );
    assert!(matches!(verdicts[1], Ok(Verdict::Known(_))), "{verdicts:?}");
    for table in ["idempotency_keys", "orders", "order_items", "outbox"] {
        assert_eq!(count(&pool, table).await, 1, "{table}");
    }
}

#[tokio::test]
async fn one_reference_under_two_keys_in_one_batch_makes_one_order() {
    let pool = pool(&migrated().await);
    let cart = order_with("reference", "cart-1");
    let batch = vec![
        request(Uuid::now_v7(), Some("k-1"), &cart),
        request(Uuid::now_v7(), Some("k-2"), &cart),
        request(Uuid::now_v7(), Some("k-3"), &order()),
    ];
    let first = batch[0].id;
    let verdicts = store_at_once(&pool, batch).await;
    assert!(
        matches!(verdicts[0], Ok(Verdict::Placed(_))),
        "{verdicts:?}"
    );
    let Ok(Verdict::Answered(answer)) = &verdicts[1] else {
        panic!("{verdicts:?}");
    };
    assert_eq!(answer.status, 200);
    assert!(String::from_utf8_lossy(&answer.body).contains(&first.to_string()));
    assert!(
        matches!(verdicts[2], Ok(Verdict::Placed(_))),
        "{verdicts:?}"
    );
    assert_eq!(count(&pool, "orders").await, 2);
    assert_eq!(count(&pool, "outbox").await, 2);
    assert_eq!(count(&pool, "idempotency_keys").await, 3);
}

#[tokio::test]
async fn an_order_that_the_database_cannot_digest_does_not_take_its_batch_down() {
    let pool = pool(&migrated().await);
    sqlx::query("alter table orders add check (customer_id <> 'poison')")
        .execute(&pool)
        .await
        .unwrap();
    let poison = order_with("customer_id", "poison");
    let batch = [&order(), &poison, &order()].map(|body| request(Uuid::new_v4(), None, body));
    let verdicts = store_at_once(&pool, batch.into()).await;
    assert!(
        matches!(verdicts[0], Ok(Verdict::Placed(_))),
        "{verdicts:?}"
    );
    assert!(matches!(verdicts[1], Err(Unavailable)), "{verdicts:?}");
    assert!(
        matches!(verdicts[2], Ok(Verdict::Placed(_))),
        "{verdicts:?}"
    );
    assert_eq!(count(&pool, "orders").await, 2);
}

#[tokio::test]
async fn a_full_queue_is_refused_at_once() {
    let pool = pool(&migrated().await);
    let settings = Settings {
        queue_max: 1,
        batch_max: 1,
        writers: 1,
        window_seconds: 60,
    };
    // No writer runs, so the first waits for ever; the second must not.
    let (intake, _writers) = Intake::new(&settings, &pool, &outbox::Wake::default());
    let (first, second) = [order(), order()]
        .map(|body| intake.submit(request(Uuid::new_v4(), None, &body)))
        .into();
    tokio::select! {
        biased;
        _ = first => panic!("nobody stores it"),
        verdict = second => assert!(matches!(verdict, Err(Unavailable)), "{verdict:?}"),
    }
    assert_eq!(count(&pool, "orders").await, 0);
}
