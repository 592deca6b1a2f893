//! The boxes of the picture: what each service did, and what it suppressed.

use serde_json::{Map, Value, json};

use super::metrics::Totals;
use crate::app::App;
use crate::controls::Up;
use crate::state::{Flow, Proof};

/// Provider calls without an outcome: each is repeated under the same key.
const REPEATED: [&str; 2] = ["outcome=\"unknown\"", "outcome=\"not_accepted\""];

pub(super) fn build(
    app: &App,
    totals: &Totals,
    up: &Up,
    broker_up: Option<bool>,
    proof: &Proof,
) -> Flow {
    let urls = &app.endpoints().urls;
    let mut flow = Flow::default();
    let mut add = |name: &'static str, urls: &[String], fill: &dyn Fn(&mut Node)| {
        let mut node = Node {
            totals,
            urls,
            fields: Map::new(),
        };
        if let Some(up) = up.get(name) {
            node.fields.insert("up".to_owned(), json!(up));
        }
        fill(&mut node);
        flow.nodes.insert(name, node.fields);
    };
    add("order", &urls.order, &|node| {
        node.between_services();
        node.set("orders", Some(proof.accepted as f64));
        let outcome = |outcome: &str| node.outcome(outcome);
        let extra = json!({ "replays": outcome("replayed"), "other_body": outcome("mismatch") });
        node.fields.insert("extra".to_owned(), extra);
    });
    add("payment", &urls.payment, &|node| {
        node.between_services();
        let calls =
            REPEATED.map(|label| node.total("psp_calls_total", &[label]).unwrap_or_default());
        let retries = node.total("inbox_retries_total", &[]).unwrap_or_default();
        node.set("retries", Some(calls.iter().sum::<f64>() + retries));
        node.set(
            "unknown",
            node.total("payments_open", &["status=\"unknown\""]),
        );
        node.set("leases", node.total("charges_in_flight", &[]));
        node.set("calls", node.total("psp_calls_total", &[]));
    });
    add("psp", &urls.psp, &|node| {
        node.set(
            "charges",
            node.total("psp_charges_total", &["outcome=\"captured\""]),
        );
        node.set(
            "refunds",
            node.total("psp_refunds_total", &["outcome=\"refunded\""]),
        );
        node.set("replays", node.total("psp_replays_total", &[]));
    });
    add("fulfilment", &urls.fulfilment, &|node| {
        node.between_services();
        let published = "outbox_published_total";
        node.set(
            "shipped",
            node.total(published, &["type=\"fulfilment.shipped\""]),
        );
        node.set(
            "rejected",
            node.total(published, &["type=\"fulfilment.rejected\""]),
        );
    });
    add("receipt", &urls.receipt, &|node| {
        node.between_services();
        node.set(
            "sent",
            node.total("receipt_tries_total", &["outcome=\"accepted\""]),
        );
    });
    let all = [&urls.order[..], &urls.payment, &urls.fulfilment].concat();
    add("topic", &all, &|node| {
        node.set("messages", node.total("outbox_published_total", &[]));
        node.fields.insert("up".to_owned(), json!(broker_up));
    });
    flow
}

/// One box while it is filled.
struct Node<'a> {
    totals: &'a Totals,
    urls: &'a [String],
    fields: Map<String, Value>,
}

impl Node<'_> {
    fn total(&self, name: &str, labels: &[&str]) -> Option<f64> {
        self.totals.total(self.urls, name, labels)
    }

    /// Counters are whole numbers; one that is not known is absent.
    fn set(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.fields
                .insert(name.to_owned(), json!(value.round() as i64));
        }
    }

    fn outcome(&self, outcome: &str) -> Option<i64> {
        let label = format!("outcome=\"{outcome}\"");
        let total = self.total("idempotency_outcomes_total", &[&label]);
        total.map(|total| total.round() as i64)
    }

    /// What every service has that publishes or consumes events.
    fn between_services(&mut self) {
        self.set("events", self.total("inbox_processed_total", &[]));
        self.set("published", self.total("outbox_published_total", &[]));
        self.set("duplicates", self.total("inbox_duplicates_total", &[]));
        self.set("retries", self.total("inbox_retries_total", &[]));
        self.set("backlog", self.total("outbox_unpublished_rows", &[]));
        self.set("lag", self.total("inbox_lag_messages", &[]));
        self.set("parked", self.total("inbox_parked_messages", &[]));
    }
}
