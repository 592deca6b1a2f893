//! The audit log says who changed what, when and why, and cannot be changed itself.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{BOB, Harness, send};

#[tokio::test]
async fn row_says_who_what_why_and_in_which_request() {
    let harness = Harness::start().await;
    let change = harness.change(1).header("x-correlation-id", "req-1");
    assert_eq!(send(change).await.0, 200);
    let list = harness
        .request(Method::GET, "/admin/audit")
        .bearer_auth(BOB);
    let (status, list) = send(list).await;
    assert_eq!((status, &list["next"]), (200, &Value::Null));
    let mut row = list["data"][0].clone();
    assert!(row["at"].take().is_string(), "{list}");
    let expected = json!({
        "id": 1, "at": null, "operator": "ann", "action": "change", "subject": "1",
        "reason": "ticket 4711", "correlation_id": "req-1",
        "detail": { "id": 1, "text": "with \u{fffd} NUL" },
    });
    assert_eq!(row, expected);
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn failed_change_leaves_no_row() {
    let harness = Harness::start().await;
    // The audit row is written first. Then the constraint of the table fails.
    assert_eq!(send(harness.change(-1)).await.0, 500);
    assert_eq!(harness.stored().await, [0, 0]);
    assert_eq!(send(harness.change(1)).await.0, 200);
    assert_eq!(send(harness.change(1)).await.0, 500);
    assert_eq!(harness.stored().await, [1, 1]);
}

#[tokio::test]
async fn change_without_room_for_its_row_fails() {
    let harness = Harness::start().await;
    let broken = "alter table audit_log add constraint full_disk check (false)";
    sqlx::raw_sql(broken).execute(&harness.pool).await.unwrap();
    assert_eq!(send(harness.change(1)).await.0, 500);
    assert_eq!(harness.stored().await, [0, 0]);
}

#[tokio::test]
async fn rows_cannot_be_changed_or_removed() {
    let harness = Harness::start().await;
    assert_eq!(send(harness.change(1)).await.0, 200);
    for statement in [
        "update audit_log set reason = 'another'",
        "update audit_log set reason = 'another' where id < 0",
        "delete from audit_log",
        "truncate audit_log",
        "with gone as (delete from audit_log returning 1) select count(*) from gone",
        "insert into audit_log (id, operator, action, subject, reason, detail, correlation_id)
             overriding system value values (1, 'x', 'x', 'x', 'x', '{}', 'x')
             on conflict (id) do update set operator = 'x'",
    ] {
        let done = sqlx::raw_sql(statement).execute(&harness.pool).await;
        let error = done.expect_err(statement).to_string();
        assert!(error.contains("append-only"), "{statement}: {error}");
    }
    let kept = "select count(*) from audit_log where reason = 'ticket 4711' and operator = 'ann'";
    assert_eq!(harness.count(kept).await, 1);
}

#[tokio::test]
async fn log_is_paged_newest_first() {
    let harness = Harness::start().await;
    for id in 1..=5 {
        assert_eq!(send(harness.change(id)).await.0, 200);
    }
    let mut seen = Vec::new();
    let mut path = "/admin/audit?limit=2".to_owned();
    loop {
        let (status, page) = send(harness.request(Method::GET, &path).bearer_auth(BOB)).await;
        assert_eq!(status, 200, "{page}");
        let rows = page["data"].as_array().unwrap();
        seen.extend(
            rows.iter()
                .map(|row| row["subject"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_i64() {
            Some(next) => path = format!("/admin/audit?limit=2&before={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["5", "4", "3", "2", "1"]);
    let nonsense = harness
        .request(Method::GET, "/admin/audit?limit=x")
        .bearer_auth(BOB);
    assert_eq!(send(nonsense).await.0, 400);
}

/// The tests run debug builds, so every test of an operator route notices a handler without an audit row.
#[tokio::test]
async fn change_without_an_audit_row_is_noticed() {
    let harness = Harness::start().await;
    let post = |path: &str| {
        let request = harness.request(Method::POST, path);
        request.bearer_auth(BOB).header("x-reason", "ticket 4711")
    };
    assert_eq!(send(post("/admin/forgetful")).await.0, 500);
    assert_eq!(send(post("/admin/repeat")).await.0, 200);
    assert_eq!(send(harness.change(1)).await.0, 200);
    assert_eq!(send(post("/admin/missing")).await.0, 404);
}
