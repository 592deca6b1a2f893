//! The spans that the services send: kept by trace in a bounded ring, joined to orders, and shown as a
//! waterfall.

mod moves;
pub(crate) mod receiver;
pub(crate) mod waterfall;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

pub(crate) use moves::Moves;

/// Traces that are kept. The oldest makes room, unless its order is followed.
const TRACES_MAX: usize = 1_000;
/// Spans of one trace that are kept. An order with every retry has far fewer.
const SPANS_PER_TRACE_MAX: usize = 300;
/// Traces of one order that are shown: its request, retries of the client, payments.
const TRACES_PER_ORDER_MAX: usize = 10;

/// The attribute with the order's id.
pub(crate) const ORDER_ID: &str = "order.id";
/// The attribute with the client's or the provider's idempotency key.
pub(crate) const KEY: &str = "idempotency.key";

/// One span, as its service sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) trace_id: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) start_us: u64,
    pub(crate) end_us: u64,
    pub(crate) error: Option<String>,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Span {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// The key of a request to the order service. Payment's calls have keys of their own.
    fn client_key(&self) -> Option<&str> {
        self.attribute(KEY).filter(|_| self.service == "order")
    }
}

#[derive(Default)]
struct Trace {
    spans: Vec<Span>,
    orders: BTreeSet<String>,
    keys: BTreeSet<String>,
}

/// The ring of traces.
#[derive(Default)]
pub(crate) struct Traces {
    traces: HashMap<String, Trace>,
    /// Oldest first.
    ages: VecDeque<String>,
    by_order: HashMap<String, Vec<String>>,
    /// Orders by the key of the request that created them, to find its retries.
    by_key: HashMap<String, String>,
    pub(crate) moves: Moves,
}

impl Traces {
    pub(crate) fn add(&mut self, span: Span, followed: &[String]) {
        if !self.traces.contains_key(&span.trace_id) {
            self.make_room(followed);
            self.ages.push_back(span.trace_id.clone());
        }
        let trace_id = span.trace_id.clone();
        if let Some(order) = self.order_of(&span) {
            self.join(&trace_id, order, span.client_key());
        }
        let trace = self.traces.entry(trace_id).or_default();
        // A batch that is sent again after a lost response must not appear twice.
        let is_new = !trace.spans.iter().any(|it| it.id == span.id);
        if is_new && trace.spans.len() < SPANS_PER_TRACE_MAX {
            trace.spans.push(span);
        }
    }

    /// The spans of every trace of the order, by start.
    pub(crate) fn of_order(&self, order: &str) -> Vec<Span> {
        let ids = self.by_order.get(order).into_iter().flatten();
        let traces = ids.filter_map(|id| self.traces.get(id));
        let mut spans: Vec<Span> = traces
            .flat_map(|trace| trace.spans.iter().cloned())
            .collect();
        spans.sort_by_key(|span| span.start_us);
        spans
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn order_of(&self, span: &Span) -> Option<String> {
        let by_key = || self.by_key.get(span.client_key()?).cloned();
        let own = span.attribute(ORDER_ID).map(str::to_owned);
        own.or_else(by_key)
    }

    fn join(&mut self, trace_id: &str, order: String, key: Option<&str>) {
        let trace = self.traces.entry(trace_id.to_owned()).or_default();
        if let Some(key) = key
            && trace.keys.insert(key.to_owned())
        {
            self.by_key.insert(key.to_owned(), order.clone());
        }
        if trace.orders.insert(order.clone()) {
            let traces = self.by_order.entry(order).or_default();
            if traces.len() < TRACES_PER_ORDER_MAX {
                traces.push(trace_id.to_owned());
            }
        }
    }

    fn make_room(&mut self, followed: &[String]) {
        // Few orders are followed, so the loop soon finds a trace that it can drop.
        for _ in 0..TRACES_MAX {
            if self.ages.len() < TRACES_MAX {
                return;
            }
            let Some(oldest) = self.ages.pop_front() else {
                return;
            };
            let orders = self.traces.get(&oldest).map(|trace| &trace.orders);
            if orders.is_some_and(|orders| followed.iter().any(|it| orders.contains(it))) {
                self.ages.push_back(oldest);
            } else {
                self.forget(&oldest);
            }
        }
    }

    fn forget(&mut self, trace_id: &str) {
        let Some(trace) = self.traces.remove(trace_id) else {
            return;
        };
        for order in trace.orders {
            if let Some(traces) = self.by_order.get_mut(&order) {
                traces.retain(|it| it != trace_id);
                if traces.is_empty() {
                    self.by_order.remove(&order);
                }
            }
        }
        for key in trace.keys {
            self.by_key.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(trace: usize, attributes: &[(&str, &str)]) -> Span {
        Span {
            trace_id: trace.to_string(),
            id: format!("{trace}-{attributes:?}"),
            service: "order".to_owned(),
            attributes: attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..Span::default()
        }
    }

    #[test]
    fn retry_is_joined_to_its_order_by_key() {
        let mut traces = Traces::default();
        traces.add(span(1, &[(ORDER_ID, "a"), (KEY, "k")]), &[]);
        traces.add(span(2, &[(KEY, "k")]), &[]);
        traces.add(span(3, &[(KEY, "other")]), &[]);
        assert_eq!(traces.of_order("a").len(), 2);
    }

    #[test]
    fn repeated_batch_is_kept_once() {
        let mut traces = Traces::default();
        for _ in 0..2 {
            traces.add(span(1, &[(ORDER_ID, "a")]), &[]);
        }
        assert_eq!(traces.of_order("a").len(), 1);
    }

    #[test]
    fn ring_is_bounded_and_keeps_followed_orders() {
        let mut traces = Traces::default();
        let followed = ["0".to_owned()];
        for n in 0..3 * TRACES_MAX {
            traces.add(
                span(n, &[(ORDER_ID, &n.to_string()), (KEY, &n.to_string())]),
                &followed,
            );
        }
        assert_eq!(traces.traces.len(), TRACES_MAX);
        assert_eq!(traces.by_order.len(), TRACES_MAX);
        assert_eq!(traces.by_key.len(), TRACES_MAX);
        assert_eq!(traces.of_order("0").len(), 1);
        assert_eq!(traces.of_order("1").len(), 0);
    }
}
