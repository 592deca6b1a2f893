//! The boxes of the diagram: what each service did, and which repeats it suppressed.

use serde_json::{Map, Value, json};

use super::metrics::Totals;
use crate::app::App;
use crate::controls::Up;
use crate::state::{Flow, Proof};

/// Provider calls without an outcome: each is repeated under the same key.
const REPEATED: [&str; 2] = ["outcome=\"unknown\"", "outcome=\"not_accepted\""];

/// Fills one box.
type Fill<'a> = dyn Fn(&mut Node<'_>) + 'a;

pub(super) fn build(
    app: &App,
    totals: &Totals,
    up: &Up,
    broker_up: Option<bool>,
    proof: &Proof,
) -> Flow {
    let urls = &app.endpoints().urls;
    let topic = [&urls.order[..], &urls.payment, &urls.fulfilment].concat();
    let boxes: [(&'static str, &[String], &Fill<'_>); 6] = [
        ("order", &urls.order, &|node| order(node, proof)),
        ("payment", &urls.payment, &payment),
        ("psp", &urls.psp, &psp),
        ("fulfilment", &urls.fulfilment, &fulfilment),
        ("receipt", &urls.receipt, &receipt),
        ("topic", &topic, &|node| {
            node.set("messages", node.total("outbox_published_total", &[]));
            node.fields.insert("up".to_owned(), json!(broker_up));
        }),
    ];
    let nodes = boxes.into_iter().map(|(name, urls, fill)| {
        let mut node = Node {
            totals,
            urls,
            fields: Map::new(),
        };
        if let Some(up) = up.get(name) {
            node.fields.insert("up".to_owned(), json!(up));
        }
        fill(&mut node);
        (name, node.fields)
    });
    Flow {
        nodes: nodes.collect(),
    }
}

fn order(node: &mut Node<'_>, proof: &Proof) {
    node.between_services();
    node.set("orders", Some(proof.accepted as f64));
    let (replays, other_body) = (node.outcome("replayed"), node.outcome("mismatch"));
    let extra = json!({ "replays": replays, "other_body": other_body });
    node.fields.insert("extra".to_owned(), extra);
}

fn payment(node: &mut Node<'_>) {
    node.between_services();
    let calls = REPEATED.map(|label| node.total("psp_calls_total", &[label]).unwrap_or_default());
    let retries = node.total("inbox_retries_total", &[]).unwrap_or_default();
    node.set("retries", Some(calls.iter().sum::<f64>() + retries));
    node.set(
        "unknown",
        node.total("payments_open", &["status=\"unknown\""]),
    );
    node.set("leases", node.total("charges_in_flight", &[]));
    node.set("calls", node.total("psp_calls_total", &[]));
}

fn psp(node: &mut Node<'_>) {
    node.set(
        "charges",
        node.total("psp_charges_total", &["outcome=\"captured\""]),
    );
    node.set(
        "refunds",
        node.total("psp_refunds_total", &["outcome=\"refunded\""]),
    );
    node.set("replays", node.total("psp_replays_total", &[]));
}

fn fulfilment(node: &mut Node<'_>) {
    node.between_services();
    let published = |event: &str| {
        let label = format!("type=\"{event}\"");
        node.total("outbox_published_total", &[&label])
    };
    let (shipped, rejected) = (
        published("fulfilment.shipped"),
        published("fulfilment.rejected"),
    );
    node.set("shipped", shipped);
    node.set("rejected", rejected);
}

fn receipt(node: &mut Node<'_>) {
    node.between_services();
    node.set(
        "sent",
        node.total("receipt_tries_total", &["outcome=\"accepted\""]),
    );
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

    /// Counters of every service that publishes or consumes events.
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
