//! What a step of the proof reports.

use serde::Serialize;

use crate::{Severity, Violation};

/// The system as of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProofState {
    pub verdict: Verdict,
    /// Whether all of the history and everything new was read.
    pub loaded: bool,
    /// Orders in the order service.
    pub accepted: i64,
    /// Of these, orders with exactly one captured charge in the provider's books, and with more.
    pub charged_once: i64,
    pub charged_more: i64,
    /// Orders without a charge: open ones, and those that ended without one.
    pub not_charged_yet: i64,
    pub ended_uncharged: i64,
    pub money: Money,
    /// The first problems, by order.
    pub problems: Vec<Violation>,
}

/// Sums in minor units, of all currencies together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Money {
    /// Captured charges.
    pub charged: i64,
    /// Completed refunds.
    pub refunded: i64,
    /// The amounts of shipped orders, of open orders with a charge, and of direct charges.
    pub due: i64,
    /// Charged, less refunded, less due. Zero if the money adds up.
    pub difference: i64,
}

/// What the checker found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every invariant that the proof checks holds.
    Holds,
    /// One was violated once and is repaired.
    Repaired,
    Violated,
    /// Not everything was read yet.
    Unknown,
}

impl Verdict {
    pub(super) fn of<'a>(problems: impl Iterator<Item = &'a Violation>) -> Self {
        let mut verdict = Self::Holds;
        for problem in problems {
            match problem.severity {
                Severity::Violated => return Self::Violated,
                Severity::Repaired => verdict = Self::Repaired,
                Severity::ForOperator => {}
            }
        }
        verdict
    }
}
