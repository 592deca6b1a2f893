//! The schema names the same statuses as the enums that the code writes through.

use psp::domain::key_use::KeyUse;
use psp::domain::{charge, refund};
use testkit::postgres::literals;

use crate::server::Server;

#[tokio::test]
async fn schema_names_every_status_and_key_use() {
    let server = Server::start().await;
    let charges = charge::Status::ALL.map(charge::Status::as_str);
    let refunds = refund::Status::ALL.map(refund::Status::as_str);
    let mut uses = KeyUse::ALL.map(KeyUse::as_str);
    uses.sort_unstable();
    let constraints: [(&str, &[&str]); 3] = [
        ("charges_status_check", &charges),
        ("refunds_status_check", &refunds),
        ("requests_operation_check", &uses),
    ];
    for (name, expected) in constraints {
        let named = literals::of_constraint(&server.books, name).await.unwrap();
        assert!(named.iter().eq(expected), "{name}: {named:?}");
    }
}
