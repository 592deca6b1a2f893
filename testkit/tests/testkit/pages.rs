//! Pages that statements read are counted.

use sqlx::{Connection as _, PgConnection};
use testkit::postgres::database::create_for_test;
use testkit::postgres::pages::PageCount;

#[tokio::test]
async fn pages_of_a_statement_are_counted() {
    let url = create_for_test("pages").await.unwrap();
    let mut count = PageCount::begin(&url).await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let fill = "create table numbers as select generate_series(1, 50000) as number";
    sqlx::raw_sql(fill).execute(&mut connection).await.unwrap();
    count.restart().await.unwrap();

    let all = "select count(*) from numbers";
    sqlx::query(all).execute(&mut connection).await.unwrap();
    let scanned = count.pages_of("from numbers").await.unwrap();
    assert!((200..1_000).contains(&scanned), "{scanned} pages");

    count.pages_of("from letters").await.unwrap_err();
    count.restart().await.unwrap();
    assert!(count.statements().await.unwrap().is_empty());
}
