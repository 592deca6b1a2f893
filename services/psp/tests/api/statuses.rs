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
    // What a pending row can become: every status but its own.
    let later = |all: &[&'static str]| -> Vec<&str> {
        let not_pending = all.iter().filter(|status| **status != "pending");
        not_pending.copied().collect()
    };
    let (charge_outcomes, refund_outcomes) = (later(&charges), later(&refunds));
    let constraints: [(&str, &[&str]); 5] = [
        ("charges_status_check", &charges),
        ("charges_outcome_check", &charge_outcomes),
        ("refunds_status_check", &refunds),
        ("refunds_outcome_check", &refund_outcomes),
        ("requests_operation_check", &uses),
    ];
    for (name, expected) in constraints {
        let named = literals::of_constraint(&server.books, name).await.unwrap();
        assert!(named.iter().eq(expected), "{name}: {named:?}");
    }
    let pending = charge::Status::Pending.as_str();
    assert_eq!(pending, refund::Status::Pending.as_str());
    for name in ["charges_settle", "refunds_settle"] {
        let named = literals::of_index(&server.books, name).await.unwrap();
        assert!(named.iter().eq([pending]), "{name}: {named:?}");
    }
}
