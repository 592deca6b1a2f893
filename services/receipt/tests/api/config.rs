//! Invalid settings end the program before it binds a port.

use receipt::startup::build;

use crate::application::config;
use crate::harness::Harness;

async fn build_error(harness: &Harness, flags: &[&str]) -> String {
    let built = build(config(harness, flags)).await;
    format!(
        "{:#}",
        built
            .err()
            .expect("the application was built with invalid settings")
    )
}

#[tokio::test]
async fn lease_shorter_than_a_dialogue_is_invalid() {
    let harness = Harness::create().await;
    let with_lease = |lease_ms| {
        let times = ["--smtp-timeout-ms", "1000", "--smtp-data-timeout-ms", "500"];
        [times.as_slice(), &["--lease-ms", lease_ms]].concat()
    };
    for lease_ms in ["1400", "1500"] {
        let error = build_error(&harness, &with_lease(lease_ms)).await;
        assert!(error.contains("LEASE_MS"), "{error}");
    }
    assert!(config(&harness, &with_lease("1501")).check().is_ok());
    assert!(
        config(&harness, &[]).check().is_ok(),
        "the defaults are valid"
    );
}

#[tokio::test]
async fn contradictory_settings_are_invalid() {
    let harness = Harness::create().await;
    for (flags, about) in [
        (
            ["--smtp-connections-max", "0"].as_slice(),
            "SMTP_CONNECTIONS_MAX",
        ),
        (&["--receipt-from", "no-address"], "RECEIPT_FROM"),
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
        let error = build_error(&harness, flags).await;
        assert!(error.contains(about), "{error}");
    }
}
