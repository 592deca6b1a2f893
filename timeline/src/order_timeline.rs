//! The timeline of one order, as the console and `chargeonce timeline --json` show it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steps::Step;
use uuid::Uuid;

/// One order over all services.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderTimeline {
    pub order_id: Uuid,
    /// The order's status; null if no service that responded knows the order.
    pub status: Option<String>,
    /// One line: charges and outcome.
    pub summary: String,
    /// The idempotency key of the request that placed the order, and the fingerprint of that request.
    pub key: Option<String>,
    pub fingerprint: Option<String>,
    pub reference: Option<String>,
    /// Captured charges in the provider's books; null if the provider did not respond.
    pub charges_in_books: Option<u32>,
    pub refunds_in_books: Option<u32>,
    /// Sorted by time.
    pub steps: Vec<Step>,
    /// Services that did not respond.
    pub missing: Vec<Missing>,
    /// What may be missing from the parts.
    pub notes: Vec<String>,
    /// Set by a caller that has the order's spans.
    pub trace: Option<Trace>,
    pub jaeger_url: Option<String>,
}

impl OrderTimeline {
    /// Whether a service that responded knows the order.
    pub fn is_known(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Adds steps that no table records, sorted by time.
    pub fn observe(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.steps.extend(steps);
        self.steps.sort_by_key(|step| step.at);
    }
}

/// A service whose part is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    pub service: String,
    pub reason: String,
}

/// The order's trace, relative to its first span.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    pub trace_id: String,
    pub spans: Vec<Span>,
    pub total_us: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub id: String,
    pub parent: Option<String>,
    pub service: String,
    pub name: String,
    pub start_us: u64,
    pub duration_us: u64,
    pub kind: SpanKind,
    pub attributes: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    Work,
    /// Time in the outbox or in the topic.
    Wait,
}
