//! The provider's ledger: what it charged and refunded, by order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use sqlx::PgPool;

use crate::Severity;

/// Counts money that moved: a charge that is pending or has failed took none, and such a refund gave none
/// back. A refund counts for the order of its charge, regardless of the refund's own reference.
const BY_ORDER: &str = "
    with back as (
        select charge_id, count(*) as refunds, sum(amount) as amount
        from refunds where status = 'refunded' group by charge_id
    )
    select reference, count(*), sum(charges.amount)::bigint,
           coalesce(sum(back.amount), 0)::bigint, coalesce(max(back.refunds), 0),
           count(*) filter (where back.amount is null or back.amount < charges.amount),
           coalesce(sum(charges.amount) filter
               (where back.amount is null or back.amount < charges.amount), 0)::bigint
    from charges left join back on back.charge_id = charges.id
    where charges.status = 'captured'
    group by reference";

/// The provider's ledger, by order.
pub(crate) struct Ledger(BTreeMap<String, OrderEntry>);

/// Charges and refunds of one order.
#[derive(Default)]
struct OrderEntry {
    charges: i64,
    charged: i64,
    refunded: i64,
    /// Most refunds of any one charge.
    refunds_max: i64,
    /// Charges that were not refunded in full, and their amount.
    kept_charges: i64,
    kept: i64,
}

impl Ledger {
    pub(crate) async fn read(psp: &PgPool) -> anyhow::Result<Self> {
        let rows: Vec<(String, i64, i64, i64, i64, i64, i64)> = sqlx::query_as(BY_ORDER)
            .fetch_all(psp)
            .await
            .context("reading the provider's ledger")?;
        let entry = |(order, charges, charged, refunded, refunds_max, kept_charges, kept)| {
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
        Ok(Self(rows.into_iter().map(entry).collect()))
    }

    pub(crate) fn is_charged(&self, order: &str) -> bool {
        self.0.contains_key(order)
    }

    /// Whether every charge of the order was refunded.
    pub(crate) fn is_refunded(&self, order: &str) -> bool {
        let entry = self.0.get(order);
        entry.is_some_and(|entry| entry.kept_charges == 0)
    }

    /// Orders with more than one charge: how many, and whether all but one were refunded.
    pub(crate) fn charged_more_than_once(&self) -> impl Iterator<Item = (&str, i64, Severity)> {
        let all = self.0.iter();
        all.filter(|(_, entry)| entry.charges > 1)
            .map(|(order, entry)| {
                let severity = match entry.kept_charges {
                    0 | 1 => Severity::Repaired,
                    _ => Severity::Violated,
                };
                (order.as_str(), entry.charges, severity)
            })
    }

    /// Orders with a charge that was refunded more than once.
    pub(crate) fn refunded_more_than_once(&self) -> impl Iterator<Item = (&str, i64)> {
        let all = self.0.iter();
        all.filter(|(_, entry)| entry.refunds_max > 1)
            .map(|(order, entry)| (order.as_str(), entry.refunds_max))
    }

    /// What the provider has charged and not refunded, for all but these orders.
    pub(crate) fn net_amount_without(&self, orders: &BTreeSet<String>) -> i64 {
        let others = self.0.iter().filter(|(order, _)| !orders.contains(*order));
        others
            .map(|(_, entry)| entry.charged - entry.refunded)
            .sum()
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
            let found = ledger.charged_more_than_once();
            found.map(|(.., severity)| severity).collect::<Vec<_>>()
        };
        assert_eq!(severities(&twice(2)), [Severity::Violated]);
        assert_eq!(twice(2).differences(&captured, &BTreeMap::new()).len(), 1);
        assert_eq!(severities(&twice(1)), [Severity::Repaired]);
        assert!(twice(1).differences(&captured, &BTreeMap::new()).is_empty());
    }
}
