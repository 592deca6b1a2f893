//! R11: the store is away. Money moves fail closed, soon and with a hint; liveness goes on.

use std::time::{Duration, Instant};

use lab::postgres::database;
use reqwest::Method;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use crate::eventually;
use crate::service::{Service, migrated, order, orders_stored, send};

const NO_DATABASE: &str = "postgres://nobody@127.0.0.1:1/none";
const ACQUIRE_TIMEOUT_MS: u64 = 300;
/// The time-out, and what a busy machine adds.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn without_its_store_every_request_fails_soon_and_says_when_to_retry() {
    let service = Service::start_on(NO_DATABASE, |config| {
        config.database.database_acquire_timeout_ms = ACQUIRE_TIMEOUT_MS;
    })
    .await;
    let started = Instant::now();
    let (order, one) = (order(), format!("/orders/{}", Uuid::new_v4()));
    let (posted, put, read, listed, cancelled, paid) = tokio::join!(
        service.post("k-1", &order),
        service.put(Uuid::new_v4(), &order),
        service.get(&one),
        service.get("/orders"),
        service.delete(Uuid::new_v4()),
        service.pay("k-1", Uuid::new_v4(), "pm_card_ok"),
    );
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    for answer in [posted, put, read, listed, cancelled, paid] {
        answer.expect_problem(503, "temporarily_unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn without_its_store_the_service_is_alive_but_not_ready() {
    let service = Service::start_on(NO_DATABASE, |_| ()).await;
    send(service.anonymous(Method::GET, "/healthz"))
        .await
        .expect(200);
    let started = Instant::now();
    let ready = send(service.anonymous(Method::GET, "/readyz")).await;
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    ready.expect_problem(503, "temporarily_unavailable");
    assert!(ready.header("retry-after").is_some());
}

#[tokio::test]
async fn a_store_that_goes_and_comes_back_has_one_order_for_all_the_retries() {
    let database_url = migrated().await;
    let service = Service::start_on(&database_url, |config| {
        config.database.database_acquire_timeout_ms = ACQUIRE_TIMEOUT_MS;
    })
    .await;
    service.post("k-0", &order()).await.expect(201);
    let name = database_url.rsplit('/').next().unwrap();
    let server = database::url(&database_url, "postgres").unwrap();
    let mut outside = PgConnection::connect(&server).await.unwrap();

    lock_out(&mut outside, name).await;
    for _ in 0..3 {
        let answer = service.post("k-1", &order()).await;
        answer.expect_problem(503, "temporarily_unavailable");
    }
    let allow = AssertSqlSafe(format!("alter database \"{name}\" allow_connections true"));
    sqlx::raw_sql(allow).execute(&mut outside).await.unwrap();

    let placed = eventually("the store is back", async || {
        let answer = service.post("k-1", &order()).await;
        (answer.status != 503).then_some(answer)
    })
    .await;
    placed.expect(201);
    assert!(service.post("k-1", &order()).await.expect(201).is_replay());
    assert_eq!(service.stored().await, orders_stored(2));
}

/// Ends every session of the database and lets no new one in.
async fn lock_out(outside: &mut PgConnection, name: &str) {
    let forbid = AssertSqlSafe(format!("alter database \"{name}\" allow_connections false"));
    sqlx::raw_sql(forbid).execute(&mut *outside).await.unwrap();
    eventually("all sessions are gone", async || {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1";
        let ended = sqlx::query(end).bind(name).execute(&mut *outside).await;
        (ended.unwrap().rows_affected() == 0).then_some(())
    })
    .await;
}
