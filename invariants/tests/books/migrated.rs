//! Migrated databases of the services; each function returns the URL of a new one.

use testkit::postgres::template::copy_for_test;

pub(crate) async fn order() -> String {
    let migrate = |database_url| {
        order::startup::migrate(order::config::Migration {
            database_url,
            demo_data: false,
        })
    };
    copy_for_test("order", migrate).await.unwrap()
}

pub(crate) async fn payment() -> String {
    let migrate = |database_url| {
        payment::startup::migrate(payment::config::Migration {
            database_url,
            demo_data: false,
        })
    };
    copy_for_test("payment", migrate).await.unwrap()
}

pub(crate) async fn receipt() -> String {
    let migrate =
        |database_url| receipt::startup::migrate(receipt::config::Migration { database_url });
    copy_for_test("receipt", migrate).await.unwrap()
}

pub(crate) async fn fulfilment() -> String {
    let migrate = |database_url| {
        fulfilment::startup::migrate(fulfilment::config::Migration {
            database_url,
            demo_data: false,
        })
    };
    copy_for_test("fulfilment", migrate).await.unwrap()
}

pub(crate) async fn psp() -> String {
    let migrate = |database_url| psp::startup::migrate(psp::config::Migration { database_url });
    copy_for_test("psp", migrate).await.unwrap()
}
