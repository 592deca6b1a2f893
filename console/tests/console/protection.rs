//! Who may use the console. These tests need no system.

use console::Listeners;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::harness::{Harness, TOKEN};

#[tokio::test]
async fn actions_need_the_token_and_reads_do_not() {
    let harness = Harness::alone().await;
    let follow = json!({ "order_id": "0194f3a0-0000-7000-8000-000000000000" });
    for token in ["", "wrongtoken"] {
        let request = harness.request(Method::POST, "/api/follow").json(&follow);
        let response = request
            .header("x-console-token", token)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        let content_type = &response.headers()["content-type"];
        assert_eq!(content_type, "application/problem+json");
    }
    let delete = harness.request(Method::DELETE, "/api/crash-points");
    let response = delete.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    harness.post("/api/follow", &follow).await;
    let catalog = harness.get("/api/catalog").await;
    assert_eq!(catalog["crash_points"][0]["window"], 10);
    harness.stop().await;
}

#[tokio::test]
async fn other_origins_and_other_names_are_rejected() {
    let harness = Harness::alone().await;
    let host = harness.address().to_string();
    let own = format!("http://{host}");
    for (header, value, expected) in [
        ("origin", "http://evil.example", StatusCode::FORBIDDEN),
        ("origin", "null", StatusCode::FORBIDDEN),
        ("sec-fetch-site", "cross-site", StatusCode::FORBIDDEN),
        ("sec-fetch-site", "same-site", StatusCode::FORBIDDEN),
        ("host", "evil.example", StatusCode::FORBIDDEN),
        ("origin", own.as_str(), StatusCode::ACCEPTED),
        ("sec-fetch-site", "same-origin", StatusCode::ACCEPTED),
    ] {
        let request = harness.request(Method::POST, "/api/follow");
        let response = request
            .header("x-console-token", TOKEN)
            .header(header, value)
            .json(&json!({ "order_id": "0194f3a0-0000-7000-8000-000000000000" }))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), expected, "{header}: {value}");
    }
    // DNS rebinding: a page of another site could read the state if its name pointed here.
    let request = harness.request(Method::GET, "/api/state");
    let response = request.header("host", "evil.example").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    harness.stop().await;
}

#[tokio::test]
async fn page_is_embedded_and_loads_nothing_from_elsewhere() {
    let harness = Harness::alone().await;
    let page = harness.request(Method::GET, "/").send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'self';"), "{policy}");
    let etag = page.headers()["etag"].clone();
    assert!(page.text().await.unwrap().contains("ChargeOnce"));
    let again = harness.request(Method::GET, "/assets/index.html");
    let again = again.header("if-none-match", etag).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    for path in ["/assets/..%2fCargo.toml", "/assets/none.js", "/none"] {
        let response = harness.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
    }
    harness.stop().await;
}

#[tokio::test]
async fn taken_port_is_named_with_a_remedy() {
    let harness = Harness::alone().await;
    let error = Listeners::bind(harness.address()).await.err().unwrap();
    let text = format!("{error:#}");
    let port = harness.address().port().to_string();
    for part in [port.as_str(), "--console off", "ss -ltnp"] {
        assert!(text.contains(part), "{text}");
    }
    harness.stop().await;
}

#[tokio::test]
async fn system_that_is_down_is_unknown_and_not_an_error() {
    let harness = Harness::alone().await;
    let state = harness.state().await;
    assert_eq!(state["proof"]["verdict"], "unknown");
    assert_eq!(state["mode"], "containers");
    let payment = &state["processes"][1];
    assert_eq!(payment["actions"], json!([]));
    let instead = payment["instead"].as_str().unwrap();
    assert!(instead.contains("docker compose kill payment"), "{instead}");
    let kill = harness
        .send("/api/processes/payment/kill", &json!({}))
        .await;
    assert_eq!(kill.status(), StatusCode::CONFLICT);
    harness.stop().await;
}

#[tokio::test]
async fn stream_sends_a_state_at_once_and_ends_with_the_console() {
    let harness = Harness::alone().await;
    let mut stream = harness
        .request(Method::GET, "/api/stream")
        .send()
        .await
        .unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let first = stream.chunk().await.unwrap().unwrap();
    assert!(
        first.starts_with(b"event: state\ndata: {\"at\":"),
        "{first:?}"
    );
    harness.stop().await;
    // The stream may still deliver what was in flight; then it ends.
    while let Ok(Some(_)) = stream.chunk().await {}
}
