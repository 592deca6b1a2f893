//! Placing orders, and the timeline of one.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::eventually;
use testkit::order_spans::ORDER_SPANS;
use testkit::polling::eventually_some;

use crate::harness::Harness;

#[tokio::test]
async fn twenty_at_once_and_other_repeats_are_one_order_each() {
    let harness = Harness::start().await;
    for (mode, responses) in [
        ("once", 1),
        ("twice", 2),
        ("twenty", 20),
        ("other_body", 2),
        ("cut", 2),
    ] {
        let placed = harness.place(mode).await;
        let order = placed["order_id"].as_str().expect(mode);
        let received = placed["responses"].as_array().unwrap();
        assert_eq!(received.len(), responses, "{mode}");
        let ids: BTreeSet<&str> = received.iter().filter_map(accepted_id).collect();
        assert_eq!(ids, BTreeSet::from([order]), "{mode}");
        let statuses: Vec<&Value> = received.iter().map(|it| &it["status"]).collect();
        match mode {
            "twice" => assert_eq!(received[1]["replayed"], true),
            "other_body" => assert_eq!(statuses, [201, 422]),
            "cut" => assert_eq!(statuses, [&Value::Null, &json!(201)]),
            _ => {}
        }
    }
    eventually(
        "five orders are charged once and none is lost",
        async || {
            let proof = harness.state().await["proof"].clone();
            proof["accepted"] == 5 && proof["charged_once"] == 5 && proof["lost"] == 0
        },
    )
    .await;
    let state = harness.state().await;
    assert_eq!(state["orders"].as_array().unwrap().len(), 5);
    assert!(state["flow"]["nodes"]["order"]["extra"]["replays"].as_i64() >= Some(1));
    harness.stop().await;
}

fn accepted_id(response: &Value) -> Option<&str> {
    let is_accepted = response["status"]
        .as_u64()
        .is_some_and(|it| (200..300).contains(&it));
    response["body"]["order_id"]
        .as_str()
        .filter(|_| is_accepted)
}

#[tokio::test]
async fn order_is_one_joined_waterfall_with_its_waits() {
    let harness = Harness::start().await;
    let mut stream = harness
        .request(reqwest::Method::GET, "/api/stream")
        .send()
        .await
        .unwrap();
    let placed = harness.place("twice").await;
    let order = placed["order_id"].as_str().unwrap();
    let timeline = eventually_some("every hop is in the trace", async || {
        let timeline = harness.get(&format!("/api/orders/{order}")).await;
        let spans = timeline["trace"]["spans"].as_array()?.clone();
        let has = |(service, name): (&str, &str)| {
            spans
                .iter()
                .any(|it| it["service"] == service && it["name"] == name)
        };
        ORDER_SPANS.into_iter().all(has).then_some(timeline)
    })
    .await;
    let spans = timeline["trace"]["spans"].as_array().unwrap();
    let ids: BTreeSet<&str> = spans.iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "ids are unique");
    // Only the two requests have no parent: everything else descends from them.
    let roots: Vec<&Value> = spans.iter().filter(|it| it["parent"].is_null()).collect();
    assert!(
        roots.iter().all(|it| it["name"] == "POST /orders"),
        "{roots:?}"
    );
    assert_eq!(roots.len(), 2, "{roots:?}");
    let waits: Vec<&str> = spans
        .iter()
        .filter(|it| it["kind"] == "wait")
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert!(waits.contains(&"order.placed in the topic"), "{waits:?}");
    // The replay is in no table, so the timeline says that it was observed.
    let steps = timeline["steps"].as_array().unwrap();
    let observed = steps.iter().filter(|it| it["source"] == "observed");
    assert_eq!(
        observed.filter(|it| it["severity"] == "duplicate").count(),
        1,
        "{steps:?}"
    );
    assert_eq!(timeline["charges_in_books"], 1);
    wait_for_move(&mut stream, order).await;
    drop(stream);
    for query in [&order[..20], placed["key"].as_str().unwrap()] {
        let found = harness.get(&format!("/api/orders?query={query}")).await;
        assert_eq!(found["orders"][0]["order_id"], order, "{query}");
    }
    harness.stop().await;
}

/// Waits until the stream has a move of the order.
async fn wait_for_move(stream: &mut reqwest::Response, order: &str) {
    let mut seen = String::new();
    while !(seen.contains("event: move") && seen.contains(order)) {
        let chunk = stream.chunk().await.unwrap().expect("the stream is open");
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
}
