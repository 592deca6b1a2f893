//! The operator listener of the running service.

use operators::{Operator, TokenList};
use payment::reconciler::{Error, Trigger};
use payment::startup::build;
use reqwest::Method;
use serde_json::Value;
use sqlx::FromRow;
use testkit::operator;

use crate::application::{config, start};
use crate::harness::Harness;
use crate::reconciling::{mount_ledger, reconciler};

#[derive(Debug, FromRow, PartialEq)]
struct AuditRow {
    operator: String,
    action: String,
    subject: String,
    reason: String,
    detail: Value,
    correlation_id: String,
}

async fn audit(harness: &Harness) -> Vec<AuditRow> {
    sqlx::query_as(
        "select operator, action, subject, reason, detail, correlation_id from audit_log order by id",
    )
    .fetch_all(&harness.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn reconciliation_by_an_operator_is_audited() {
    let harness = Harness::create().await;
    mount_ledger(&harness, Vec::new()).await;
    let running = start(&harness, &[]).await;
    let url = |port: u16| format!("http://127.0.0.1:{port}/admin/reconciliations?all=true");
    let client = operator::client().unwrap();

    let at_customers = client.request(Method::POST, &url(running.port)).send();
    assert_eq!(at_customers.await.unwrap().status(), 404);
    assert!(audit(&harness).await.is_empty());

    let request = client.request(Method::POST, &url(running.operator_port));
    let request = request.header("x-correlation-id", "req-1");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let report: Value = response.json().await.unwrap();
    let expected = AuditRow {
        operator: operator::NAME.to_owned(),
        action: "reconcile".to_owned(),
        subject: report["id"].to_string(),
        reason: operator::REASON.to_owned(),
        detail: serde_json::json!({ "all": true }),
        correlation_id: "req-1".to_owned(),
    };
    assert_eq!(audit(&harness).await, [expected]);
    running.shutdown.cancel();
    running.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn reconciliation_that_does_not_start_is_not_audited() {
    let harness = Harness::create().await;
    mount_ledger(&harness, Vec::new()).await;
    let reconciler = reconciler(&harness, std::time::Duration::ZERO);
    harness
        .execute("alter table reconciliations add constraint broken check (false)")
        .await;
    let operator = Operator::new("ann", "provider outage");
    let trigger = Trigger::Operator {
        all: false,
        operator,
    };
    let failed = reconciler.reconcile(&trigger).await;
    assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    assert!(audit(&harness).await.is_empty());
    harness
        .execute("alter table reconciliations drop constraint broken")
        .await;
    // A reconciliation on schedule is not an operator's change.
    reconciler.reconcile(&Trigger::Schedule).await.unwrap();
    assert!(audit(&harness).await.is_empty());
    reconciler.reconcile(&trigger).await.unwrap();
    assert_eq!(audit(&harness).await.len(), 1);
}

#[tokio::test]
async fn invalid_operator_tokens_end_the_program() {
    let harness = Harness::create().await;
    for tokens in ["ann", "ann:my-secret", ":00"] {
        let mut config = config(&harness, &[]);
        config.application.operators.operator_tokens = TokenList::from(tokens.to_owned());
        let error = format!("{:#}", build(config).await.err().unwrap());
        assert!(error.contains("OPERATOR_TOKENS"), "{error}");
        assert!(!error.contains("my-secret"), "{error}");
    }
}
