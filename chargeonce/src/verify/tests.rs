//! The checks against stubs: a correct one, and one for each flaw that the checks must find.

use super::checklist::Checklist;
use super::run_checks;
use endpoints::client::Client;
use testkit::order_stub::{self as stub, Flaw};

async fn passed_and_total(flaw: Flaw) -> (usize, usize) {
    let client = Client::new(&stub::start(flaw).await, "demo-key-acme").unwrap();
    let mut checklist = Checklist::default();
    run_checks(&mut checklist, &client, "demo-key-globex", None).await;
    (checklist.passed(), checklist.total())
}

#[tokio::test]
async fn correct_service_passes_every_check() {
    let (passed, total) = passed_and_total(Flaw::None).await;
    assert_eq!(passed, total);
    assert!(total >= 15, "only {total} checks");
}

#[tokio::test]
async fn service_that_never_replays_is_found() {
    let (passed, total) = passed_and_total(Flaw::NeverReplays).await;
    // Replay, header, reordered JSON, quoted key, other body, replay after that, concurrent copies,
    // one original.
    assert_eq!(total - passed, 8);
}

#[tokio::test]
async fn service_that_ignores_the_body_is_found() {
    let (passed, total) = passed_and_total(Flaw::IgnoresBody).await;
    assert_eq!(total - passed, 1);
}

#[tokio::test]
async fn service_that_shares_keys_across_tenants_is_found() {
    let (passed, total) = passed_and_total(Flaw::SharesKeys).await;
    assert_eq!(total - passed, 1);
}
