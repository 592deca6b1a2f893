//! What the page shows, as JSON.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use invariants::{Money, ProofState, Verdict, Violation};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Everything except the time: two equal states need not be sent twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct State {
    pub(crate) mode: &'static str,
    pub(crate) jaeger_url: Option<String>,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) proof: Proof,
    pub(crate) flow: Flow,
    pub(crate) processes: Vec<Process>,
    pub(crate) orders: Vec<OrderLine>,
    pub(crate) series: Vec<Point>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) armed: Vec<Armed>,
}

/// What the checker found, and whether the orders that the console placed still exist.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Proof {
    pub(crate) verdict: Verdict,
    pub(crate) checked_at: Option<DateTime<Utc>>,
    pub(crate) accepted: i64,
    pub(crate) charged_once: i64,
    pub(crate) charged_more: i64,
    pub(crate) not_charged_yet: i64,
    pub(crate) ended_uncharged: i64,
    pub(crate) responses_2xx: usize,
    pub(crate) lost: usize,
    pub(crate) money: Money,
    pub(crate) problems: Vec<Violation>,
}

impl Default for Proof {
    /// Before the first check.
    fn default() -> Self {
        Self {
            verdict: Verdict::Unknown,
            checked_at: None,
            accepted: 0,
            charged_once: 0,
            charged_more: 0,
            not_charged_yet: 0,
            ended_uncharged: 0,
            responses_2xx: 0,
            lost: 0,
            money: Money::default(),
            problems: Vec::new(),
        }
    }
}

impl From<ProofState> for Proof {
    fn from(checked: ProofState) -> Self {
        Self {
            verdict: checked.verdict,
            accepted: checked.accepted,
            charged_once: checked.charged_once,
            charged_more: checked.charged_more,
            not_charged_yet: checked.not_charged_yet,
            ended_uncharged: checked.ended_uncharged,
            money: checked.money,
            problems: checked.problems,
            ..Self::default()
        }
    }
}

/// Counters per box of the diagram. A counter that is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Flow {
    pub(crate) nodes: BTreeMap<&'static str, Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) state: &'static str,
    pub(crate) pid: Option<u32>,
    pub(crate) since: Option<DateTime<Utc>>,
    pub(crate) restarts: u32,
    pub(crate) actions: Vec<&'static str>,
    /// The command to run where the console has no action.
    pub(crate) instead: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OrderLine {
    pub(crate) order_id: Uuid,
    pub(crate) status: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) placed_at: DateTime<Utc>,
    pub(crate) charges: i64,
    pub(crate) followed: bool,
}

/// One second of the charts. What is not known is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Point {
    pub(crate) t: i64,
    pub(crate) accepted: Option<f64>,
    pub(crate) shipped: Option<f64>,
    pub(crate) p50_ms: Option<u64>,
    pub(crate) p99_ms: Option<u64>,
    pub(crate) backlog: Option<f64>,
}

/// An order or an event that went from one box to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Move {
    pub(crate) order_id: String,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    #[serde(rename = "type")]
    pub(crate) event_type: String,
    pub(crate) at: DateTime<Utc>,
}

/// A fault, a kill, a death or a return: a line in the charts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Mark {
    pub(crate) t: DateTime<Utc>,
    pub(crate) kind: MarkKind,
    pub(crate) label: String,
    pub(crate) process: Option<String>,
    pub(crate) order_id: Option<Uuid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MarkKind {
    Kill,
    Pause,
    Resume,
    Death,
    Return,
    Arm,
    Fault,
    Heal,
    Reset,
}

/// A crash point or a fault that is armed and has not been applied yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Armed {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) service: String,
}
