//! Several requests in one commit. The tests fill the queue before a writer runs.

use std::sync::Arc;

use api_keys::Principal;
use events::OrderPlaced;
use futures_util::future::join_all;
use idempotency::{ContentHash, Fingerprint, Key};
use order::domain::Draft;
use order::intake::{Intake, NotStored, Settings};
use order::responses;
use order::store::intake::{KeyClaim, NewOrder, Placement};
use serde_json::Value;
use sqlx::PgPool;
use testkit::test_topic::sealed;
use uuid::Uuid;

use crate::harness::{migrated, order, order_with, pool};

/// Submits all orders, then runs one writer: they form one batch.
async fn store_at_once(
    pool: &PgPool,
    orders: Vec<Arc<NewOrder>>,
) -> Vec<Result<Placement, NotStored>> {
    let settings = Settings {
        // One principal gets half of the places.
        queue_max: 2 * orders.len(),
        batch_max: orders.len(),
        writers: 1,
        window_seconds: 60,
    };
    let (intake, mut writers) = Intake::new(&settings, pool, &outbox::Wake::default());
    let placements = join_all(orders.into_iter().map(|order| intake.submit(order)));
    tokio::select! {
        biased;
        placements = placements => placements,
        _ = writers.remove(0).run() => panic!("the writer ended while the queue was open"),
    }
}

fn request(id: Uuid, key: Option<&str>, body: &Value) -> Arc<NewOrder> {
    request_of("acme", id, key, body)
}

fn request_of(principal: &str, id: Uuid, key: Option<&str>, body: &Value) -> Arc<NewOrder> {
    let content_hash = ContentHash::of(body);
    let draft = Draft::check(serde_json::from_value(body.clone()).unwrap()).unwrap();
    let event = OrderPlaced {
        v: 2,
        order_id: id,
        attempt: 1,
        customer_id: draft.customer_id.clone(),
        amount: draft.total.amount(),
        currency: draft.total.currency(),
        payment_method: draft.payment_method.to_string(),
        lines: draft.lines(),
        principal_id: principal.to_owned(),
    };
    Arc::new(NewOrder {
        id,
        principal: Arc::new(Principal {
            id: principal.to_owned(),
            fingerprint_salt: vec![],
        }),
        claim: key.map(|key| KeyClaim {
            route: "POST /orders",
            key: Key::parse(key).unwrap(),
            fingerprint: Fingerprint::of(&[], "POST", "/orders", &content_hash),
        }),
        response: responses::for_new_order(id, &draft),
        event: sealed("order", &event),
        content_hash,
        draft,
    })
}

async fn count(pool: &PgPool, table: &str) -> i64 {
    let query = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn same_id_put_twice_in_a_batch_creates_one_order() {
    let pool = pool(&migrated().await);
    let id = Uuid::new_v4();
    let other = order_with("customer_id", "cust-89");
    let batch = vec![request(id, None, &order()), request(id, None, &other)];
    let placements = store_at_once(&pool, batch).await;
    assert!(
        matches!(placements[0], Ok(Placement::Placed)),
        "{placements:?}"
    );
    assert!(
        matches!(placements[1], Ok(Placement::Known)),
        "{placements:?}"
    );
    let customer: String = sqlx::query_scalar("select customer_id from orders")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(customer, "cust-88");
    assert_eq!(count(&pool, "order_items").await, 1);
    assert_eq!(count(&pool, "outbox").await, 1);
}

#[tokio::test]
async fn same_key_twice_in_a_batch_creates_one_order() {
    let pool = pool(&migrated().await);
    let post = || request(Uuid::now_v7(), Some("k-1"), &order());
    let placements = store_at_once(&pool, vec![post(), post()]).await;
    assert!(
        matches!(placements[0], Ok(Placement::Placed)),
        "{placements:?}"
    );
    assert!(
        matches!(placements[1], Ok(Placement::Known)),
        "{placements:?}"
    );
    for table in ["idempotency_keys", "orders", "order_items", "outbox"] {
        assert_eq!(count(&pool, table).await, 1, "{table}");
    }
}

#[tokio::test]
async fn same_reference_twice_in_a_batch_creates_one_order() {
    let pool = pool(&migrated().await);
    let cart = order_with("reference", "cart-1");
    let batch = vec![
        request(Uuid::now_v7(), Some("k-1"), &cart),
        request(Uuid::now_v7(), Some("k-2"), &cart),
        request(Uuid::now_v7(), Some("k-3"), &order()),
    ];
    let first = batch[0].id;
    let placements = store_at_once(&pool, batch).await;
    assert!(
        matches!(placements[0], Ok(Placement::Placed)),
        "{placements:?}"
    );
    let Ok(Placement::ReferenceTaken(response)) = &placements[1] else {
        panic!("{placements:?}");
    };
    assert_eq!(response.status, 200);
    assert!(String::from_utf8_lossy(&response.body).contains(&first.to_string()));
    assert!(
        matches!(placements[2], Ok(Placement::Placed)),
        "{placements:?}"
    );
    assert_eq!(count(&pool, "orders").await, 2);
    assert_eq!(count(&pool, "outbox").await, 2);
    assert_eq!(count(&pool, "idempotency_keys").await, 3);
}

#[tokio::test]
async fn order_that_the_database_rejects_fails_alone() {
    let pool = pool(&migrated().await);
    sqlx::query("alter table orders add check (customer_id <> 'poison')")
        .execute(&pool)
        .await
        .unwrap();
    let poison = order_with("customer_id", "poison");
    let batch = [&order(), &poison, &order()].map(|body| request(Uuid::new_v4(), None, body));
    let placements = store_at_once(&pool, batch.into()).await;
    assert!(
        matches!(placements[0], Ok(Placement::Placed)),
        "{placements:?}"
    );
    assert_eq!(placements[1], Err(NotStored::Unavailable));
    assert!(
        matches!(placements[2], Ok(Placement::Placed)),
        "{placements:?}"
    );
    assert_eq!(count(&pool, "orders").await, 2);
}

#[tokio::test]
async fn full_queue_fails_at_once() {
    let pool = pool(&migrated().await);
    let settings = Settings {
        queue_max: 1,
        batch_max: 1,
        writers: 1,
        window_seconds: 60,
    };
    // No writer runs, so the first request waits forever; the second must not wait.
    let (intake, _writers) = Intake::new(&settings, &pool, &outbox::Wake::default());
    let (first, second) = [order(), order()]
        .map(|body| intake.submit(request(Uuid::new_v4(), None, &body)))
        .into();
    tokio::select! {
        biased;
        _ = first => panic!("no writer runs"),
        placement = second => assert_eq!(placement, Err(NotStored::Unavailable)),
    }
    assert_eq!(count(&pool, "orders").await, 0);
}

#[tokio::test]
async fn principal_that_fills_its_share_leaves_places_to_others() {
    let pool = pool(&migrated().await);
    let settings = Settings {
        queue_max: 8,
        batch_max: 8,
        writers: 1,
        window_seconds: 60,
    };
    let (intake, mut writers) = Intake::new(&settings, &pool, &outbox::Wake::default());
    let submit = |principal| intake.submit(request_of(principal, Uuid::new_v4(), None, &order()));
    let acme = join_all((0..6).map(|_| submit("acme")));
    let globex = join_all((0..2).map(|_| submit("globex")));
    let writer = writers.remove(0);
    // The queue is full before the writer starts: `join` polls in this order.
    let (acme, globex) = tokio::select! {
        biased;
        placements = async { tokio::join!(biased; acme, globex) } => placements,
        _ = writer.run() => panic!("the writer ended while the queue was open"),
    };
    let placed = |placements: &[Result<Placement, NotStored>]| {
        let placed = placements
            .iter()
            .filter(|it| matches!(it, Ok(Placement::Placed)));
        placed.count()
    };
    assert_eq!((placed(&acme), placed(&globex)), (4, 2));
}
