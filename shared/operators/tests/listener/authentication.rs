//! Every request needs a token, and every change a reason.

use endpoints::operator::Token;
use reqwest::{Method, header};
use service_kit::http;

use crate::harness::{ANN, BOB, Harness, routes, send, serve};
use crate::log;

#[tokio::test]
async fn request_without_a_valid_token_is_rejected() {
    let harness = Harness::start().await;
    let hash = Token::from(ANN.to_owned()).setting("ann");
    for (method, path) in [
        (Method::GET, "/admin/changes"),
        (Method::POST, "/admin/changes/1"),
        (Method::GET, "/admin/audit"),
        // A caller without a token does not learn which routes exist.
        (Method::GET, "/admin/nothing"),
        (Method::PUT, "/admin/changes"),
        (Method::GET, "/healthz"),
    ] {
        let request = || {
            let request = harness.request(method.clone(), path);
            request.header("x-reason", "ticket 4711")
        };
        for authorization in [
            None,
            Some("Bearer".to_owned()),
            Some("Bearer ".to_owned()),
            Some("Bearer wrong".to_owned()),
            Some(format!("Bearer {}", &ANN[..ANN.len() - 1])),
            Some(format!("Basic {ANN}")),
            Some(ANN.to_owned()),
            Some(format!("Bearer {}", hash.split(':').nth(1).unwrap())),
        ] {
            let request = match &authorization {
                Some(value) => request().header(header::AUTHORIZATION, value),
                None => request(),
            };
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 401, "{method} {path} {authorization:?}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
            assert_eq!(
                response.headers()["content-type"],
                "application/problem+json"
            );
            let body = response.text().await.unwrap();
            assert!(body.contains("unknown_operator"), "{body}");
            assert!(body.contains("Authorization: Bearer"), "{body}");
        }
    }
    assert_eq!(harness.stored().await, [0, 0]);
}

#[tokio::test]
async fn without_operators_the_problem_names_the_setting() {
    let harness = Harness::start_with("").await;
    for request in [
        harness.request(Method::GET, "/admin/changes"),
        harness.change(1),
    ] {
        let (status, problem) = send(request.bearer_auth("")).await;
        assert_eq!(
            (status, &problem["code"]),
            (401, &"operators_not_configured".into())
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("OPERATOR_TOKENS"), "{detail}");
    }
    assert_eq!(harness.stored().await, [0, 0]);
}

#[tokio::test]
async fn change_needs_a_reason_and_a_read_does_not() {
    let harness = Harness::start().await;
    let read = || {
        harness
            .request(Method::GET, "/admin/changes")
            .bearer_auth(BOB)
    };
    assert_eq!(send(read()).await.0, 200);
    let change = || {
        harness
            .request(Method::POST, "/admin/changes/1")
            .bearer_auth(BOB)
    };
    let too_long = "x".repeat(501);
    for reason in [None, Some(""), Some("  "), Some("a\tb"), Some(&*too_long)] {
        let request = match reason {
            Some(reason) => change().header("x-reason", reason),
            None => change(),
        };
        let (status, problem) = send(request).await;
        assert_eq!(
            (status, &problem["code"]),
            (400, &"reason_required".into()),
            "{reason:?}"
        );
        assert!(problem["detail"].as_str().unwrap().contains("X-Reason"));
    }
    assert_eq!(harness.stored().await, [0, 0]);
    let longest = "é".repeat(500);
    assert_eq!(send(change().header("x-reason", longest)).await.0, 200);
    assert_eq!(harness.stored().await, [1, 1]);
}

#[tokio::test]
async fn url_without_a_route_is_a_problem() {
    let harness = Harness::start().await;
    let nothing = harness
        .request(Method::GET, "/admin/nothing")
        .bearer_auth(ANN);
    let (status, problem) = send(nothing).await;
    assert_eq!((status, &problem["code"]), (404, &"not_found".into()));
    let put = harness
        .request(Method::PUT, "/admin/changes/1")
        .bearer_auth(ANN);
    let (status, problem) = send(put.header("x-reason", "why not")).await;
    assert_eq!(
        (status, &problem["code"]),
        (405, &"method_not_allowed".into())
    );
}

/// A table of operator routes that is mounted on the customers' port by mistake changes nothing.
#[tokio::test]
async fn change_without_the_authentication_layer_fails() {
    let harness = Harness::start().await;
    let url = serve(http::layered(routes(harness.pool.clone()))).await;
    let request = reqwest::Client::new().post(format!("{url}/admin/changes/1"));
    let request = request.bearer_auth(ANN).header("x-reason", "ticket 4711");
    assert_eq!(send(request).await.0, 500);
    assert_eq!(harness.stored().await, [0, 0]);
}

/// The log has the lines of all tests of this program, down to the level TRACE.
#[tokio::test]
async fn tokens_are_never_logged() {
    let harness = Harness::start().await;
    assert_eq!(send(harness.change(1)).await.0, 200);
    assert_eq!(send(harness.change(-1)).await.0, 500);
    let wrong = harness
        .request(Method::GET, "/admin/audit")
        .bearer_auth("guessed-token");
    assert_eq!(send(wrong).await.0, 401);
    let text = log::text();
    assert!(
        text.contains("operator change") && text.contains("ticket 4711"),
        "{text}"
    );
    assert!(text.contains("operator request rejected"), "{text}");
    let hash = Token::from(ANN.to_owned()).setting("ann");
    let hash = hash.split(':').nth(1).unwrap();
    for secret in [ANN, BOB, "guessed-token", hash] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}
