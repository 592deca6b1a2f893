use payment::startup::Application;

use crate::application::config;
use crate::harness::Harness;

async fn refusal(harness: &Harness, flags: &[&str]) -> String {
    let built = Application::build(config(harness, flags)).await;
    format!("{:#}", built.err().expect("it was built all the same"))
}

#[tokio::test]
async fn a_lease_that_ends_before_its_call_can_is_refused_at_the_start() {
    let harness = Harness::create().await;
    for lease_ms in ["4999", "5000"] {
        let flags = ["--lease-ms", lease_ms, "--psp-timeout-ms", "5000"];
        let error = refusal(&harness, &flags).await;
        assert!(error.contains("LEASE_MS"), "{error}");
    }
    let flags = ["--lease-ms", "5001", "--psp-timeout-ms", "5000"];
    assert!(config(&harness, &flags).check().is_ok());
}

#[tokio::test]
async fn a_charger_that_may_call_nobody_is_refused_at_the_start() {
    let harness = Harness::create().await;
    let error = refusal(&harness, &["--psp-in-flight-max", "0"]).await;
    assert!(error.contains("PSP_IN_FLIGHT_MAX"), "{error}");
}

#[tokio::test]
async fn a_provider_that_cannot_be_called_is_refused_at_the_start() {
    let harness = Harness::create().await;
    // There is no TLS here: with https no charge would ever get an answer.
    for url in ["nonsense", "https://provider.example"] {
        let mut config = config(&harness, &[]);
        config.psp_url = url.to_owned();
        let error = Application::build(config).await.err().unwrap();
        assert!(format!("{error:#}").contains("PSP_URL"), "{error:#}");
    }
}
