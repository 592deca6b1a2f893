#![doc = include_str!("../README.md")]

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Most rows of one table in a part.
pub const ROWS_MAX: i64 = 100;

/// What one service knows about one order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub service: String,
    pub order_id: Uuid,
    /// The status of the order, or of its latest attempt in payment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed_at: Option<DateTime<Utc>>,
    /// When the status was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_at: Option<DateTime<Utc>>,
    /// The merchant's own name for the purchase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The idempotency key of the request that created the order, and the fingerprint of that request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The keys that payment sends to the provider for this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provider_keys: Vec<String>,
    /// Captured charges and completed refunds in the provider's books. Only the provider knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charges: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refunds: Option<u32>,
    pub steps: Vec<Step>,
    /// What may be missing from this part, such as rows past a limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Part {
    pub fn new(service: &str, order_id: Uuid) -> Self {
        Self {
            service: service.to_owned(),
            order_id,
            status: None,
            placed_at: None,
            status_at: None,
            reference: None,
            key: None,
            fingerprint: None,
            provider_keys: Vec::new(),
            charges: None,
            refunds: None,
            steps: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the service of every step and sorts the steps by time.
    pub fn finish(mut self) -> Self {
        for step in &mut self.steps {
            step.service.clone_from(&self.service);
        }
        self.steps.sort_by_key(|step| step.at);
        self
    }

    /// Notes that a table may have more rows than the part shows.
    pub fn note_limit(&mut self, table: &str, rows: usize) {
        if rows as i64 >= ROWS_MAX {
            let note = format!("{table}: only {ROWS_MAX} rows are shown");
            self.notes.push(note);
        }
    }
}

/// One durable step of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub at: DateTime<Utc>,
    pub service: String,
    pub what: String,
    /// The transaction that wrote the step; null if a later one changed the row.
    pub commit: Option<String>,
    pub source: Source,
    pub table: Option<String>,
    pub facts: BTreeMap<String, String>,
    pub event: Option<Event>,
    pub severity: Severity,
}

impl Step {
    /// A step that a row of this table proves.
    pub fn new(at: DateTime<Utc>, table: &str, what: impl Into<String>) -> Self {
        Self {
            at,
            service: String::new(),
            what: what.into(),
            commit: None,
            source: Source::Table,
            table: Some(table.to_owned()),
            facts: BTreeMap::new(),
            event: None,
            severity: Severity::Normal,
        }
    }

    /// A step that no table records, but that a process or a span showed.
    pub fn observed(at: DateTime<Utc>, service: &str, what: impl Into<String>) -> Self {
        Self {
            service: service.to_owned(),
            source: Source::Observed,
            table: None,
            ..Self::new(at, "", what)
        }
    }

    pub fn commit(mut self, id: Option<String>) -> Self {
        self.commit = id;
        self
    }

    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    pub fn event(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }

    pub fn fact(mut self, name: &str, value: impl ToString) -> Self {
        self.facts.insert(name.to_owned(), value.to_string());
        self
    }

    /// Adds the fact if there is a value.
    pub fn fact_if(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }
}

/// How we know about a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A row of a service's table.
    Table,
    /// A span or the death of a process: something that no table records.
    Observed,
}

/// What kind of step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Normal,
    /// Something went wrong: an unknown outcome, a parked message, a process that died.
    Fault,
    /// Money was captured or refunded.
    Money,
    /// A repeat that changed nothing.
    Duplicate,
}

/// An event, by its id in the topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub id: Uuid,
    #[serde(rename = "type")]
    pub event_type: String,
    /// When the broker acknowledged it. Null if it has not, or if this service did not publish the event.
    pub published_at: Option<DateTime<Utc>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finish_names_the_service_and_sorts_by_time() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        let mut part = Part::new("order", Uuid::from_u128(7));
        part.steps = vec![
            Step::new(at(2), "orders", "second"),
            Step::new(at(1), "orders", "first"),
        ];
        let part = part.finish();
        let steps: Vec<&str> = part.steps.iter().map(|step| step.what.as_str()).collect();
        assert_eq!(steps, ["first", "second"]);
        assert!(part.steps.iter().all(|step| step.service == "order"));
    }

    #[test]
    fn full_list_is_noted() {
        let mut part = Part::new("order", Uuid::from_u128(7));
        part.note_limit("payments", 99);
        assert!(part.notes.is_empty());
        part.note_limit("payments", 100);
        assert_eq!(part.notes, ["payments: only 100 rows are shown"]);
    }

    /// The console's page and `chargeonce timeline` read this JSON.
    #[test]
    fn step_has_every_field_of_the_contract() {
        let step = Step::new(DateTime::UNIX_EPOCH, "payments", "attempt 1 stored")
            .fact("tries", 2)
            .fact_if("charge", None::<&str>);
        let json = serde_json::to_value(&step).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"at": "1970-01-01T00:00:00Z", "service": "", "what": "attempt 1 stored",
                "commit": null, "source": "table", "table": "payments", "facts": {"tries": "2"},
                "event": null, "severity": "normal"})
        );
    }
}
