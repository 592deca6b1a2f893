//! A step of the proof costs what is new.

use testkit::postgres::pages::{PageCount, StatementPages};
use uuid::Uuid;

use crate::tables::{Tables, load};

/// Pages that one idle step reads in the databases of order and provider, and its statements.
async fn idle_pages(tables: &Tables) -> (i64, Vec<StatementPages>) {
    let mut proof = tables.proof();
    load(&mut proof).await;
    // The history is older than what a step reads again.
    proof.step().await.unwrap();
    let mut orders = PageCount::begin(&tables.order_url).await.unwrap();
    let mut books = PageCount::begin(&tables.psp_url).await.unwrap();
    proof.step().await.unwrap();
    let mut all = Vec::new();
    for count in [&mut orders, &mut books] {
        let statements = count.statements().await.unwrap();
        assert!(!statements.is_empty());
        all.extend(statements);
    }
    (all.iter().map(|it| it.pages).sum(), all)
}

#[tokio::test]
async fn idle_step_reads_no_more_with_a_long_history() {
    let tables = Tables::create().await;
    tables.add_history(10_000, 9).await;
    let (short, _) = idle_pages(&tables).await;
    tables.add_history(40_000, 5).await;
    let (long, statements) = idle_pages(&tables).await;
    // A scan of the history would read hundreds of pages more.
    assert!(
        long <= short * 5 / 4,
        "{short} pages, then {long}: {statements:#?}"
    );
}

#[tokio::test]
async fn step_reads_new_orders_and_not_the_others() {
    let tables = Tables::create().await;
    tables.add_history(20_000, 5).await;
    let mut proof = tables.proof();
    load(&mut proof).await;
    for _ in 0..20 {
        let order = tables.add_order("placed").await;
        let charge = Uuid::now_v7();
        tables
            .add_charge(charge, &order.to_string(), "captured")
            .await;
    }
    let mut orders = PageCount::begin(&tables.order_url).await.unwrap();
    let state = proof.step().await.unwrap();
    assert_eq!((state.accepted, state.charged_once), (20_020, 20_020));
    let rows: i64 = orders
        .statements()
        .await
        .unwrap()
        .iter()
        .map(|it| it.rows)
        .sum();
    assert!(
        rows <= 100,
        "{rows} rows of the order service for 20 orders"
    );
}
