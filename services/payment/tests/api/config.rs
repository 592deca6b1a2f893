//! Invalid settings end the program before it binds a port.

use payment::startup::build;

use crate::application::config;
use crate::harness::Harness;

async fn build_error(harness: &Harness, flags: &[&str]) -> String {
    let built = build(config(harness, flags)).await;
    format!("{:#}", built.err().expect("invalid settings were accepted"))
}

#[tokio::test]
async fn lease_shorter_than_a_call_is_invalid() {
    let harness = Harness::create().await;
    for lease_ms in ["4999", "5000"] {
        let flags = ["--lease-ms", lease_ms, "--psp-timeout-ms", "5000"];
        let error = build_error(&harness, &flags).await;
        assert!(error.contains("LEASE_MS"), "{error}");
    }
    let flags = ["--lease-ms", "5001", "--psp-timeout-ms", "5000"];
    assert!(config(&harness, &flags).check().is_ok());
}

#[tokio::test]
async fn limit_of_zero_concurrent_calls_is_invalid() {
    let harness = Harness::create().await;
    let error = build_error(&harness, &["--psp-in-flight-max", "0"]).await;
    assert!(error.contains("PSP_IN_FLIGHT_MAX"), "{error}");
}

#[tokio::test]
async fn provider_url_that_cannot_be_called_is_invalid() {
    let harness = Harness::create().await;
    // The client has no TLS: with https every charge would stay without an answer.
    for url in ["nonsense", "https://provider.example"] {
        let mut config = config(&harness, &[]);
        config.psp_url = url.to_owned();
        let error = build(config).await.err().unwrap();
        assert!(format!("{error:#}").contains("PSP_URL"), "{error:#}");
    }
}
