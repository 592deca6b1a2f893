//! Faults are armed and cleared on the operator listener only, each with an audit row.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::operator;

use crate::server::{Server, order};

/// Operator, action, subject and reason of each audit row, and its detail.
async fn audit(server: &Server) -> Vec<([String; 4], Value)> {
    sqlx::query_as(
        "select array[operator, action, subject, reason], detail from audit_log order by id",
    )
    .fetch_all(&server.books)
    .await
    .unwrap()
}

fn fault() -> Value {
    json!({"point": "before_charge", "action": "drop", "reference": "o-1"})
}

#[tokio::test]
async fn every_change_of_faults_is_audited() {
    let server = Server::start().await;
    let id = server.arm(fault()).await;
    server
        .arm(json!({"point": "before_charge", "action": "drop"}))
        .await;
    for path in [format!("/admin/faults/{id}"), "/admin/faults".to_owned()] {
        let cleared = server.call(Method::DELETE, &path, None).await;
        assert_eq!(cleared.status, 204, "{path}");
    }
    // Neither changes anything.
    let path = format!("/admin/faults/{id}");
    assert_eq!(server.call(Method::DELETE, &path, None).await.status, 404);
    let invalid = json!({"point": "nowhere", "action": "drop"});
    let invalid = server.call(Method::POST, "/admin/faults", Some(invalid));
    assert_eq!(invalid.await.status, 422);

    let rows = audit(&server).await;
    let id = id.to_string();
    let expected = [
        ("faults.arm", "o-1"),
        ("faults.arm", "all"),
        ("faults.clear", &id),
        ("faults.clear", "all"),
    ];
    let expected = expected.map(|(action, subject)| {
        [operator::NAME, action, subject, operator::REASON].map(str::to_owned)
    });
    let facts: Vec<_> = rows.iter().map(|(facts, _)| facts.clone()).collect();
    assert_eq!(facts, expected);
    assert_eq!(rows[0].1["reference"], "o-1", "{rows:?}");
}

#[tokio::test]
async fn fault_without_its_audit_row_is_not_armed_or_cleared() {
    let server = Server::start().await;
    server.arm(fault()).await;
    sqlx::raw_sql("alter table audit_log add constraint full_disk check (false) not valid")
        .execute(&server.books)
        .await
        .unwrap();
    let arm = server
        .call(Method::POST, "/admin/faults", Some(fault()))
        .await;
    assert_eq!(arm.status, 500);
    for path in ["/admin/faults", "/admin/faults/1"] {
        assert_eq!(server.call(Method::DELETE, path, None).await.status, 500);
    }
    assert_eq!(server.applied().await, [0], "one fault is armed, as before");
}

#[tokio::test]
async fn merchants_and_strangers_cannot_arm_faults() {
    let server = Server::start().await;
    let merchants = format!("{}/admin/faults", server.url);
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let request = server.operator.request(method.clone(), &merchants);
        let response = request.json(&fault()).send().await.unwrap();
        assert_eq!(response.status(), 404, "{method}");
    }
    let operators = format!("{}/admin/faults", server.operator_url);
    let stranger = server.http.post(&operators).json(&fault());
    let stranger = stranger.header("x-reason", "curious").send();
    assert_eq!(stranger.await.unwrap().status(), 401);
    assert!(server.applied().await.is_empty());
    assert_eq!(server.charge("k", &order("o-1")).await.status, 201);
}
