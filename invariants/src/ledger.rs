//! The provider's ledger: what it charged and refunded, by order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use sqlx::{PgConnection, PgPool};

use crate::{Severity, Violation};

/// Order, charges, charged, refunded, most refunds of one charge, charges kept, their amount.
type Row = (String, i64, i64, i64, i64, i64, i64);

/// Counts only money that moved: pending and failed charges and refunds moved none. A refund counts for the
/// order of its charge, regardless of the refund's own reference. The argument is the source of `charges` and
/// of `back`, the refunds of a charge.
macro_rules! by_order {
    ($from:literal) => {
        concat!(
            "select reference, count(*), sum(charges.amount)::bigint,
                    coalesce(sum(back.amount), 0)::bigint, coalesce(max(back.refunds), 0),
                    count(*) filter (where back.amount is null or back.amount < charges.amount),
                    coalesce(sum(charges.amount) filter
                        (where back.amount is null or back.amount < charges.amount), 0)::bigint
             from ",
            $from,
            " group by reference"
        )
    };
}

/// The whole ledger.
const BY_ORDER: &str = by_order!(
    "charges left join (
         select charge_id, count(*) as refunds, sum(amount) as amount
         from refunds where status = 'refunded' group by charge_id
     ) as back on back.charge_id = charges.id
     where charges.status = 'captured'"
);
/// These orders only: one lookup for each order, and one for each of its charges. `offset 0` keeps the planner
/// from turning the lookups into a join that compares every charge with every order of the list, and the range
/// leaves one index to use.
const OF_ORDERS: &str = by_order!(
    "unnest($1::text[]) as wanted (name)
     cross join lateral (
         select id, reference, amount from charges
         where reference between wanted.name and wanted.name and status = 'captured'
         order by reference, id offset 0
     ) as charges
     left join lateral (
         select count(*) as refunds, sum(amount) as amount
         from refunds where charge_id = charges.id and status = 'refunded'
     ) as back on true"
);

/// The provider's ledger, by order.
pub(crate) struct Ledger(BTreeMap<String, OrderEntry>);

/// Charges and refunds of one order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OrderEntry {
    pub(crate) charges: i64,
    pub(crate) charged: i64,
    pub(crate) refunded: i64,
    /// Most refunds of any one charge.
    pub(crate) refunds_max: i64,
    /// Charges that were not refunded in full, and their amount.
    pub(crate) kept_charges: i64,
    pub(crate) kept: i64,
}

impl Ledger {
    pub(crate) async fn read(psp: &PgPool) -> anyhow::Result<Self> {
        let rows = sqlx::query_as(BY_ORDER).fetch_all(psp).await;
        Ok(Self::collect(
            rows.context("reading the provider's ledger")?,
        ))
    }

    /// The entries of these orders. An order without a captured charge has none.
    pub(crate) async fn of(psp: &mut PgConnection, orders: &[String]) -> anyhow::Result<Self> {
        let rows = sqlx::query_as(OF_ORDERS).bind(orders).fetch_all(psp).await;
        Ok(Self::collect(
            rows.context("reading the provider's ledger")?,
        ))
    }

    fn collect(rows: Vec<Row>) -> Self {
        let entry = |(order, charges, charged, refunded, refunds_max, kept_charges, kept): Row| {
            let entry = OrderEntry {
                charges,
                charged,
                refunded,
                refunds_max,
                kept_charges,
                kept,
            };
            (order, entry)
        };
        Self(rows.into_iter().map(entry).collect())
    }

    pub(crate) fn get(&self, order: &str) -> Option<&OrderEntry> {
        self.0.get(order)
    }

    /// What is wrong with the charges and refunds of any order.
    pub(crate) fn violations(&self) -> impl Iterator<Item = Violation> {
        let all = self.0.iter();
        all.flat_map(|(order, entry)| entry.violations(order))
    }

    /// What is wrong with a shipped order.
    pub(crate) fn shipment_violations(&self, order: &str) -> Vec<Violation> {
        let entry = self.0.get(order).cloned().unwrap_or_default();
        entry.shipment_violations(order)
    }

    /// What the provider has charged and not refunded, for all but these orders.
    pub(crate) fn net_amount_without(&self, orders: &BTreeSet<String>) -> i64 {
        let others = self.0.iter().filter(|(order, _)| !orders.contains(*order));
        others.map(|(_, entry)| entry.net_amount()).sum()
    }

    /// Compares both ways: charges that payment has not recorded, and captures that the provider has
    /// not charged. An unexplained charge is recorded as such.
    pub(crate) fn differences(
        &self,
        captured: &BTreeMap<String, i64>,
        unexplained: &BTreeMap<String, i64>,
    ) -> Vec<String> {
        let not_recorded = self.0.iter().filter(|(order, _)| {
            !captured.contains_key(*order) && !unexplained.contains_key(*order)
        });
        let not_charged = captured
            .iter()
            .filter(|(order, amount)| self.0.get(*order).is_none_or(|entry| !entry.is(**amount)));
        let mut differences: Vec<String> = not_recorded
            .map(|(order, entry)| format!("{order}: charged {}, not recorded", entry.charged))
            .collect();
        differences.extend(not_charged.map(|(order, amount)| {
            let charged = self.0.get(order).map_or(0, |entry| entry.charged);
            format!("{order}: recorded {amount}, charged {charged}")
        }));
        differences
    }
}

impl OrderEntry {
    /// At most one charge per order, and one refund per charge. A second charge that was refunded counts as
    /// repaired.
    pub(crate) fn violations(&self, order: &str) -> Vec<Violation> {
        let mut found = Vec::new();
        if self.charges > 1 {
            let severity = match self.kept_charges {
                0 | 1 => Severity::Repaired,
                _ => Severity::Violated,
            };
            let detail = format!("{order} has {}", self.charges);
            let violation = Violation::of("I1 one charge per order", order, detail);
            found.push(Violation {
                severity,
                ..violation
            });
        }
        if self.refunds_max > 1 {
            let detail = format!("{order} has {}", self.refunds_max);
            found.push(Violation::of("I1 one refund per charge", order, detail));
        }
        found
    }

    /// A shipped order was charged, and keeps its charge.
    pub(crate) fn shipment_violations(&self, order: &str) -> Vec<Violation> {
        let invariant = match (self.charges, self.kept_charges) {
            (0, _) => "I5 no shipment without a capture",
            (_, 0) => "I5 no refunded order ships",
            _ => return Vec::new(),
        };
        vec![Violation::of(invariant, order, order)]
    }

    /// What was charged and not refunded.
    pub(crate) fn net_amount(&self) -> i64 {
        self.charged - self.refunded
    }

    /// Whether the provider charged this amount, apart from further charges that were refunded.
    fn is(&self, amount: i64) -> bool {
        self.charged == amount || self.charges > 1 && self.kept == amount
    }
}

#[cfg(test)]
mod tests {
    use psp::domain::{charge, refund};

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn ledger_literals_exist_at_the_provider() {
        let mut known = charge::Status::ALL.map(charge::Status::as_str).to_vec();
        known.extend(refund::Status::ALL.map(refund::Status::as_str));
        assert_known(BY_ORDER, &known);
        assert_known(OF_ORDERS, &known);
    }

    fn ledger(charged: &[(&str, i64)]) -> Ledger {
        let entry = |&(order, charged): &(&str, i64)| {
            let entry = OrderEntry {
                charges: 1,
                charged,
                ..OrderEntry::default()
            };
            (order.to_owned(), entry)
        };
        Ledger(charged.iter().map(entry).collect())
    }

    #[test]
    fn differences_are_found_both_ways() {
        let captured = BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 5)]);
        let none = BTreeMap::new();
        assert!(
            ledger(&[("a", 5), ("b", 5)])
                .differences(&captured, &none)
                .is_empty()
        );
        let unexplained = BTreeMap::from([("c".to_owned(), 7)]);
        assert!(
            ledger(&[("a", 5), ("b", 5), ("c", 7)])
                .differences(&captured, &unexplained)
                .is_empty()
        );
        assert_eq!(
            ledger(&[("a", 10), ("c", 7)]).differences(&captured, &none),
            [
                "c: charged 7, not recorded",
                "a: recorded 5, charged 10",
                "b: recorded 5, charged 0"
            ]
        );
    }

    #[test]
    fn second_charge_is_repaired_once_it_is_refunded() {
        let twice = |kept_charges| {
            let entry = OrderEntry {
                charges: 2,
                charged: 10,
                kept_charges,
                kept: 5 * kept_charges,
                ..OrderEntry::default()
            };
            Ledger(BTreeMap::from([("a".to_owned(), entry)]))
        };
        let captured = BTreeMap::from([("a".to_owned(), 5)]);
        let severities = |ledger: &Ledger| {
            let found = ledger.violations();
            found.map(|found| found.severity).collect::<Vec<_>>()
        };
        assert_eq!(severities(&twice(2)), [Severity::Violated]);
        assert_eq!(twice(2).differences(&captured, &BTreeMap::new()).len(), 1);
        assert_eq!(severities(&twice(1)), [Severity::Repaired]);
        assert!(twice(1).differences(&captured, &BTreeMap::new()).is_empty());
    }
}
