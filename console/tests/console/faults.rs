//! Breaking the system through the console.

use serde_json::{Value, json};
use testkit::eventually;
use testkit::polling::eventually_some;

use crate::harness::Harness;

/// Whether there is such a mark.
fn has_mark(state: &Value, kind: &str, process: &str) -> bool {
    let marks = state["marks"].as_array().unwrap();
    marks
        .iter()
        .any(|it| it["kind"] == kind && it["process"] == process)
}

fn process<'a>(state: &'a Value, name: &str) -> &'a Value {
    let all = state["processes"].as_array().unwrap();
    all.iter().find(|it| it["name"] == name).unwrap()
}

#[tokio::test]
async fn payment_killed_mid_charge_is_charged_once() {
    let harness = Harness::start().await;
    // The scenario waits for a service that has just died.
    harness.post("/api/processes/order/kill", &json!({})).await;
    let placed = harness
        .post("/api/scenario/kill-mid-charge", &json!({}))
        .await;
    let order = placed["order_id"].as_str().unwrap();
    let state = eventually_some("payment is back", async || {
        let state = harness.state().await;
        has_mark(&state, "return", "payment").then_some(state)
    })
    .await;
    assert!(has_mark(&state, "kill", "payment") && has_mark(&state, "death", "payment"));
    assert_eq!(process(&state, "payment")["restarts"], 1);
    let timeline = harness.timeline_when(order, "shipped").await;
    assert_eq!(timeline["charges_in_books"], 1);
    let steps = timeline["steps"].as_array().unwrap();
    let died = steps
        .iter()
        .find(|it| it["what"] == "payment died (signal 9)");
    assert_eq!(died.unwrap()["source"], "observed");
    eventually("the proof holds", async || {
        let proof = harness.state().await["proof"].clone();
        proof["charged_once"] == 1 && proof["verdict"] == "holds"
    })
    .await;
    harness.stop().await;
}

#[tokio::test]
async fn armed_crash_point_kills_and_its_order_ships() {
    let harness = Harness::start().await;
    let point = json!({ "service": "fulfilment", "point": "inbox.handled" });
    harness.post("/api/crash-points", &point).await;
    let armed = harness.state().await["armed"].clone();
    assert_eq!(armed[0]["service"], "fulfilment", "{armed}");
    let order = harness.place("once").await["order_id"].clone();
    let state = eventually_some("fulfilment died", async || {
        let state = harness.state().await;
        has_mark(&state, "death", "fulfilment").then_some(state)
    })
    .await;
    assert_eq!(state["armed"], json!([]));
    let marks = state["marks"].as_array().unwrap();
    let death = marks.iter().find(|it| it["kind"] == "death").unwrap();
    assert_eq!(death["order_id"], order);
    let timeline = harness
        .timeline_when(order.as_str().unwrap(), "shipped")
        .await;
    assert_eq!(timeline["charges_in_books"], 1);
    let unknown = json!({ "service": "psp", "point": "none" });
    assert_eq!(
        harness.send("/api/crash-points", &unknown).await.status(),
        404
    );
    harness.stop().await;
}

#[tokio::test]
async fn pause_cut_and_provider_faults_delay_and_never_charge_twice() {
    let harness = Harness::start().await;
    harness
        .post("/api/processes/receipt/pause", &json!({}))
        .await;
    eventually("receipt is paused", async || {
        process(&harness.state().await, "receipt")["state"] == "paused"
    })
    .await;
    let cut = |on: bool| json!({ "cut": "payment-psp", "on": on });
    harness.post("/api/network", &cut(true)).await;
    assert_eq!(harness.get("/api/catalog").await["network"][0]["on"], true);
    let order = harness.place("once").await["order_id"].clone();
    let order = order.as_str().unwrap();
    eventually("payment is waiting for the provider", async || {
        harness.state().await["flow"]["nodes"]["payment"]["leases"].as_i64() > Some(0)
    })
    .await;
    let timeline = harness.get(&format!("/api/orders/{order}")).await;
    assert_eq!(timeline["charges_in_books"], 0);
    let fault = json!({ "id": "drop_after_charge" });
    harness.post("/api/provider-faults", &fault).await;
    harness.post("/api/network", &cut(false)).await;
    harness
        .post("/api/processes/receipt/resume", &json!({}))
        .await;
    let timeline = harness.timeline_when(order, "shipped").await;
    assert_eq!(timeline["charges_in_books"], 1);
    eventually("the fault is spent and receipt runs", async || {
        let state = harness.state().await;
        state["armed"] == json!([]) && process(&state, "receipt")["state"] == "running"
    })
    .await;
    harness.stop().await;
}

#[tokio::test]
async fn reset_deletes_everything_and_the_system_works_again() {
    let harness = Harness::start().await;
    let order = harness.place("once").await["order_id"].clone();
    harness
        .timeline_when(order.as_str().unwrap(), "shipped")
        .await;
    harness.post("/api/reset", &json!({})).await;
    let state = eventually_some("nothing is left", async || {
        let state = harness.state().await;
        let proof = &state["proof"];
        (proof["verdict"] == "holds" && proof["accepted"] == 0).then_some(state)
    })
    .await;
    assert_eq!(state["orders"], json!([]));
    assert_eq!(state["proof"]["responses_2xx"], 0);
    let order = harness.place("once").await["order_id"].clone();
    harness
        .timeline_when(order.as_str().unwrap(), "shipped")
        .await;
    harness.stop().await;
}
