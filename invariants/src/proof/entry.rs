//! What the proof stores about one order, what the order adds to the sums, and its violations. Pure.

use crate::Violation;
use crate::ledger::OrderEntry;
use crate::proof::state::Money;

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) status: OrderStatus,
    pub(super) amount: i64,
    pub(super) money: Charges,
}

/// What a status means for the money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderStatus {
    /// Not terminal: placed or paid.
    Open,
    Shipped,
    /// Ended without money: declined, failed, cancelled or refunded. A declined or failed order can be paid
    /// again; its next charge shows that.
    Unpaid,
}

/// An order's charges. Most orders have none, or one charge of their own amount; these need no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Charges {
    #[default]
    None,
    /// One charge of the order's amount, nothing refunded.
    Regular,
    Other(Box<OrderEntry>),
}

impl Charges {
    pub(super) fn new(entry: OrderEntry, amount: i64) -> Self {
        match entry {
            entry if entry == OrderEntry::default() => Self::None,
            entry if entry == regular(amount) => Self::Regular,
            entry => Self::Other(Box::new(entry)),
        }
    }
}

fn regular(amount: i64) -> OrderEntry {
    OrderEntry {
        charges: 1,
        charged: amount,
        refunded: 0,
        refunds_max: 0,
        kept_charges: 1,
        kept: amount,
    }
}

impl Entry {
    fn charges(&self) -> OrderEntry {
        match &self.money {
            Charges::None => OrderEntry::default(),
            Charges::Regular => regular(self.amount),
            Charges::Other(entry) => (**entry).clone(),
        }
    }

    /// What the provider should have of this order's money now.
    fn due(&self) -> i64 {
        match self.status {
            OrderStatus::Shipped => self.amount,
            // The books may be ahead of the order: its status may not show the charge or the refund yet.
            OrderStatus::Open if self.charges().kept_charges > 0 => self.amount,
            OrderStatus::Open | OrderStatus::Unpaid => 0,
        }
    }

    pub(super) fn violations(&self, order: &str) -> Vec<Violation> {
        let charges = self.charges();
        let mut found = charges.violations(order);
        if self.status == OrderStatus::Shipped {
            found.extend(charges.shipment_violations(order));
        }
        let (net, due) = (charges.net_amount(), self.due());
        if found.is_empty() && net != due {
            let detail = format!("{order}: {net} charged and not refunded, {due} due");
            found.push(Violation::of("I2 the money adds up", order, detail));
        }
        found
    }
}

/// Sums over all orders and all other charges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) charged_once: i64,
    pub(super) charged_more: i64,
    pub(super) not_charged_yet: i64,
    pub(super) ended_uncharged: i64,
    charged: i64,
    refunded: i64,
    due: i64,
}

impl Totals {
    /// Adds (1) or removes (-1) an order.
    pub(super) fn add(&mut self, entry: &Entry, sign: i64) {
        let charges = entry.charges();
        let counter = match (charges.charges, entry.status) {
            (0, OrderStatus::Open) => &mut self.not_charged_yet,
            (0, _) => &mut self.ended_uncharged,
            (1, _) => &mut self.charged_once,
            _ => &mut self.charged_more,
        };
        *counter += sign;
        self.charged += sign * charges.charged;
        self.refunded += sign * charges.refunded;
        self.due += sign * entry.due();
    }

    /// The same for charges without an order. The amount of a direct charge is due.
    pub(super) fn add_other(&mut self, entry: &OrderEntry, is_direct: bool, sign: i64) {
        self.charged += sign * entry.charged;
        self.refunded += sign * entry.refunded;
        if is_direct {
            self.due += sign * entry.net_amount();
        }
    }

    pub(super) fn money(&self) -> Money {
        Money {
            charged: self.charged,
            refunded: self.refunded,
            due: self.due,
            difference: self.charged - self.refunded - self.due,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    fn entry(status: OrderStatus, charges: OrderEntry) -> Entry {
        Entry {
            status,
            amount: 5,
            money: Charges::new(charges, 5),
        }
    }

    fn twice(kept_charges: i64) -> OrderEntry {
        OrderEntry {
            charges: 2,
            charged: 10,
            refunded: 10 - 5 * kept_charges,
            refunds_max: 1,
            kept_charges,
            kept: 5 * kept_charges,
        }
    }

    fn refunded() -> OrderEntry {
        OrderEntry {
            refunded: 5,
            refunds_max: 1,
            kept_charges: 0,
            kept: 0,
            ..regular(5)
        }
    }

    #[test]
    fn violations_of_every_status_and_every_kind_of_charges() {
        use OrderStatus::{Open, Shipped, Unpaid};
        let none = OrderEntry::default;
        let i1 = Some(("I1 one charge per order", Severity::Violated));
        let repaired = Some(("I1 one charge per order", Severity::Repaired));
        let i2 = Some(("I2 the money adds up", Severity::Violated));
        let uncharged = Some(("I5 no shipment without a capture", Severity::Violated));
        let returned = Some(("I5 no refunded order ships", Severity::Violated));
        for (status, charges, expected) in [
            (Open, none(), None),
            (Open, regular(5), None),
            (Open, refunded(), None),
            (Open, twice(2), i1),
            (Shipped, none(), uncharged),
            (Shipped, regular(5), None),
            (Shipped, regular(4), i2),
            (Shipped, refunded(), returned),
            (Shipped, twice(2), i1),
            (Shipped, twice(1), repaired),
            (Unpaid, none(), None),
            (Unpaid, regular(5), i2),
            (Unpaid, refunded(), None),
        ] {
            let entry = entry(status, charges);
            let found = entry.violations("o").into_iter().next();
            let found = found.map(|found| (found.invariant, found.severity));
            assert_eq!(found, expected, "{entry:?}");
        }
    }

    #[test]
    fn removing_an_entry_undoes_adding_it() {
        let mut totals = Totals::default();
        let entries = [
            entry(OrderStatus::Open, OrderEntry::default()),
            entry(OrderStatus::Shipped, regular(5)),
            entry(OrderStatus::Shipped, twice(2)),
            entry(OrderStatus::Unpaid, refunded()),
        ];
        for entry in &entries {
            totals.add(entry, 1);
        }
        totals.add_other(&regular(3), true, 1);
        let money = totals.money();
        assert_eq!((money.charged, money.refunded, money.due), (23, 5, 13));
        // The second charge.
        assert_eq!(money.difference, 5);
        assert_eq!((totals.charged_once, totals.charged_more), (2, 1));
        for entry in &entries {
            totals.add(entry, -1);
        }
        totals.add_other(&regular(3), true, -1);
        assert_eq!(totals, Totals::default());
    }
}
