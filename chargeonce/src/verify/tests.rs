//! The checks against stubs: one that keeps the promise, and one for each way to break it.

use super::checklist::Checklist;
use super::{Args, run_checks};
use endpoints::client::Client;
use testkit::order_stub::{self as stub, Flaw};

async fn passed_and_total(flaw: Flaw) -> (usize, usize) {
    let args = Args {
        url: None,
        key: "demo-key-acme".to_owned(),
        other_key: "demo-key-globex".to_owned(),
        psp_database_url: None,
        state_dir: None,
    };
    let client = Client::new(&stub::start(flaw).await, &args.key).unwrap();
    let mut checklist = Checklist::default();
    run_checks(&mut checklist, &client, &args, None).await;
    (checklist.passed(), checklist.total())
}

#[tokio::test]
async fn a_service_that_keeps_the_promise_passes_every_check() {
    let (passed, total) = passed_and_total(Flaw::None).await;
    assert_eq!(passed, total);
    assert!(total >= 15, "only {total} checks");
}

#[tokio::test]
async fn a_service_that_never_replays_is_noticed() {
    let (passed, total) = passed_and_total(Flaw::NeverReplays).await;
    // Replay, header, spelling, quoted key, other body, original after that, parallel, one original.
    assert_eq!(total - passed, 8);
}

#[tokio::test]
async fn a_service_that_replays_whatever_the_body_is_noticed() {
    let (passed, total) = passed_and_total(Flaw::IgnoresTheBody).await;
    assert_eq!(total - passed, 1);
}

#[tokio::test]
async fn a_service_that_mixes_up_tenants_is_noticed() {
    let (passed, total) = passed_and_total(Flaw::SharesKeys).await;
    assert_eq!(total - passed, 1);
}
