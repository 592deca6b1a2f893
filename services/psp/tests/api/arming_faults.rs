//! Arming and clearing faults.

use std::pin::pin;

use reqwest::Method;
use serde_json::json;

use crate::server::{Server, order, paid_with};

#[tokio::test]
async fn fault_applies_n_times_and_then_no_more() {
    let server = Server::start().await;
    server
        .arm(json!({"point": "before_charge", "action": "error", "times": 2}))
        .await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(server.charge("k", &order("o-1")).await.status.as_u16());
    }
    assert_eq!(statuses, [500, 500, 201]);
    assert_eq!(server.applied().await, [2]);
}

#[tokio::test]
async fn error_fault_answers_any_error_status_with_its_code() {
    // Even a provider that stores its 5xx does not store a 4xx.
    let server = Server::start_with(&["--psp-replay-5xx", "stored"]).await;
    for status in [400, 401, 402, 403, 404, 408, 409, 422, 425, 429, 451, 499] {
        for (point, charged) in [("before_charge", 0), ("after_charge", 1)] {
            let key = format!("{point}-{status}");
            let fault = json!({"point": point, "action": "error", "status": status,
                               "code": "account_closed", "times": 1, "reference": key});
            server.arm(fault).await;
            let body = order(&key);
            let hit = server.charge(&key, &body).await;
            assert_eq!((hit.status.as_u16(), hit.replayed), (status, false));
            assert_eq!(hit.code(), "account_closed");
            let again = server.charge(&key, &body).await;
            let seen = (again.status.as_u16(), again.replayed);
            assert_eq!(seen, (201, charged == 1), "{key}");
        }
    }
}

#[tokio::test]
async fn stored_error_replays_with_its_code() {
    let server = Server::start_with(&["--psp-replay-5xx", "stored"]).await;
    for (point, status) in [
        ("before_charge", 500),
        ("during_charge", 502),
        ("after_charge", 599),
    ] {
        let fault = json!({"point": point, "action": "error", "status": status,
                           "code": "core_banking_down", "times": 1});
        server.arm(fault).await;
        let first = server.charge(point, &order(point)).await;
        assert_eq!((first.status.as_u16(), first.replayed), (status, false));
        assert_eq!(first.code(), "core_banking_down");
        let again = server.charge(point, &order(point)).await;
        assert_eq!((again.status.as_u16(), again.replayed), (status, true));
        assert_eq!(again.text, first.text);
    }
}

#[tokio::test]
async fn error_fault_without_a_code_has_one_that_fits() {
    let server = Server::start().await;
    for (status, code) in [
        (400, "provider_error"),
        (409, "conflict"),
        (429, "rate_limited"),
        (500, "provider_error"),
        (503, "unavailable"),
    ] {
        let fault = json!({"point": "before_charge", "action": "error", "status": status,
                           "times": 1});
        server.arm(fault).await;
        let hit = server.charge("k", &order("o-1")).await;
        assert_eq!((hit.status.as_u16(), hit.code().as_str()), (status, code));
    }
}

#[tokio::test]
async fn probability_one_always_applies_and_zero_never() {
    let server = Server::start().await;
    let fault = |probability: f64| json!({"point": "before_charge", "action": "error", "probability": probability});
    let never = server.arm(fault(0.0)).await;
    for n in 0..20 {
        assert_eq!(
            server.charge(&format!("a-{n}"), &order("o")).await.status,
            201
        );
    }
    let always = server.arm(fault(1.0)).await;
    for n in 0..20 {
        assert_eq!(
            server.charge(&format!("b-{n}"), &order("o")).await.status,
            500
        );
    }
    assert!(never < always);
    assert_eq!(server.applied().await, [0, 20]);
}

#[tokio::test]
async fn fault_for_one_reference_does_not_affect_others() {
    let server = Server::start().await;
    let fault = json!({"point": "before_charge", "action": "error", "reference": "o-2"});
    server.arm(fault).await;
    assert_eq!(server.charge("k-1", &order("o-1")).await.status, 201);
    assert_eq!(server.charge("k-2", &order("o-2")).await.status, 500);
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn faults_are_listed_as_posted_and_cleared_singly_or_all() {
    let server = Server::start().await;
    let fault = json!({"point": "after_charge", "action": "delay", "delay_ms": 5, "times": 9,
                       "probability": 0.5, "reference": "o-1"});
    let first = server.arm(fault.clone()).await;
    for _ in 0..2 {
        server
            .arm(json!({"point": "before_charge", "action": "drop"}))
            .await;
    }
    let mut expected = fault;
    expected["id"] = first.into();
    expected["fired"] = 0.into();
    assert_eq!(server.get("/admin/faults").await["data"][0], expected);

    let path = format!("/admin/faults/{first}");
    for status in [204, 404] {
        assert_eq!(
            server.call(Method::DELETE, &path, None).await.status,
            status
        );
    }
    assert_eq!(server.applied().await.len(), 2);
    assert_eq!(
        server
            .call(Method::DELETE, "/admin/faults", None)
            .await
            .status,
        204
    );
    assert!(server.applied().await.is_empty());
    assert_eq!(server.charge("k", &order("o-1")).await.status, 201);
}

#[tokio::test]
async fn invalid_fault_is_422_and_not_armed() {
    let server = Server::start().await;
    for fault in [
        json!({"point": "nowhere", "action": "drop"}),
        json!({"point": "before_charge", "action": "explode"}),
        json!({"point": "before_charge", "action": "delay"}),
        json!({"point": "before_charge", "action": "error", "status": 201}),
        json!({"point": "before_charge", "action": "error", "status": 399}),
        json!({"point": "before_charge", "action": "error", "status": 600}),
        json!({"point": "before_charge", "action": "error", "code": ""}),
        json!({"point": "before_charge", "action": "error", "code": "two words"}),
        json!({"point": "before_charge", "action": "drop", "probability": 2}),
        json!({"point": "before_charge", "action": "drop", "tmies": 1}),
    ] {
        let response = server
            .call(Method::POST, "/admin/faults", Some(fault.clone()))
            .await;
        assert_eq!(response.status, 422, "{fault}");
    }
    assert!(server.applied().await.is_empty());
}

#[tokio::test]
async fn cleared_faults_end_a_slow_charge_that_replays_at_once() {
    let server = Server::start_with(&["--psp-slow-ms", "600000"]).await;
    let body = paid_with("o-1", "pm_card_slow");
    let mut charge = pin!(server.charge("k", &body));
    let response = loop {
        let clear = server.call(Method::DELETE, "/admin/faults", None);
        tokio::select! {
            response = &mut charge => break response,
            cleared = clear => assert_eq!(cleared.status, 204),
        }
    };
    assert_eq!((response.status.as_u16(), response.replayed), (201, false));
    let again = server.charge("k", &body).await;
    assert_eq!((again.status.as_u16(), again.replayed), (201, true));
    assert_eq!(server.charged().await, 1);
}
