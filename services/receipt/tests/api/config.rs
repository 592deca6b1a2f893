use receipt::startup::Application;

use crate::application::config;
use crate::harness::Harness;

async fn refusal(harness: &Harness, flags: &[&str]) -> String {
    let built = Application::build(config(harness, flags)).await;
    format!("{:#}", built.err().expect("it was built all the same"))
}

#[tokio::test]
async fn a_lease_that_ends_before_its_dialogue_can_is_refused_at_the_start() {
    let harness = Harness::create().await;
    let with_lease = |lease_ms| {
        let times = ["--smtp-timeout-ms", "1000", "--smtp-data-timeout-ms", "500"];
        [times.as_slice(), &["--lease-ms", lease_ms]].concat()
    };
    for lease_ms in ["1400", "1500"] {
        let error = refusal(&harness, &with_lease(lease_ms)).await;
        assert!(error.contains("LEASE_MS"), "{error}");
    }
    assert!(config(&harness, &with_lease("1501")).check().is_ok());
    assert!(config(&harness, &[]).check().is_ok(), "the defaults fit");
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_at_the_start() {
    let harness = Harness::create().await;
    for (flags, about) in [
        (
            ["--smtp-connections-max", "0"].as_slice(),
            "SMTP_CONNECTIONS_MAX",
        ),
        (&["--receipt-from", "nobody"], "RECEIPT_FROM"),
        (&["--receipt-to", "{customer_id}"], "RECEIPT_TO"),
        (
            &["--smtp-user", "me", "--smtp-tls", "starttls"],
            "SMTP_PASSWORD",
        ),
        (
            &["--smtp-user", "me", "--smtp-password", "secret"],
            "SMTP_TLS",
        ),
    ] {
        let error = refusal(&harness, flags).await;
        assert!(error.contains(about), "{error}");
    }
}
