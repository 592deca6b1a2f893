//! The checker of the system's invariants, over the databases of a running system.
//!
//! It reads every service's tables and the provider's ledger, and compares them. [`always`] checks
//! what holds at every moment. [`settled`] checks what holds once faults are over and no work is
//! open. [`for_operator`] lists what only an operator can settle. [`Proof`] checks a part of both continuously,
//! at a cost that depends on what is new.

mod for_operator;
mod ledger;
mod orders;
mod payments;
mod proof;
mod query;
mod receipts;
mod shipments;
#[cfg(test)]
mod status_literals;

use std::collections::BTreeSet;
use std::fmt;

pub use proof::{Money, Proof, ProofState, Verdict};

use endpoints::database::connect;
use endpoints::{Endpoints, Service};
use ledger::Ledger;
use serde::Serialize;
use sqlx::PgPool;

pub use for_operator::{
    CHARGE_UNEXPLAINED, MAIL_WAITS, MESSAGE_PARKED, ORDER_LOST, REFUND_FAILED, for_operator,
};

/// A broken invariant, by its name in ARCHITECTURE.md, with what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub severity: Severity,
    pub invariant: &'static str,
    pub detail: String,
    /// The order that it concerns, if any: the reference in the provider's books.
    pub order_id: Option<String>,
}

impl Violation {
    /// A violated invariant of one order.
    fn of(invariant: &'static str, order: &str, detail: impl Into<String>) -> Self {
        Self {
            severity: Severity::Violated,
            invariant,
            detail: detail.into(),
            order_id: Some(order.to_owned()),
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It does not hold now.
    Violated,
    /// It was violated and is repaired: a second charge that was refunded.
    Repaired,
    /// Nothing is violated, but only an operator can settle it.
    ForOperator,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)?;
        match self.severity {
            Severity::Violated => Ok(()),
            Severity::Repaired => f.write_str(" (violated once, repaired)"),
            Severity::ForOperator => f.write_str(" (only an operator can settle it)"),
        }
    }
}

/// Pools of the five databases.
pub struct Databases {
    pub order: PgPool,
    pub payment: PgPool,
    pub fulfilment: PgPool,
    pub receipt: PgPool,
    pub psp: PgPool,
}

impl Databases {
    pub async fn connect(endpoints: &Endpoints) -> anyhow::Result<Self> {
        let open = |service| connect(endpoints.database_url(service));
        Ok(Self {
            order: open(Service::Order).await?,
            payment: open(Service::Payment).await?,
            fulfilment: open(Service::Fulfilment).await?,
            receipt: open(Service::Receipt).await?,
            psp: open(Service::Psp).await?,
        })
    }
}

/// What holds at every moment, even while part of the system is down.
pub async fn always(databases: &Databases) -> anyhow::Result<Vec<Violation>> {
    // Effects are read before their causes. A shipment that is read first must have its charge in the
    // ledger that is read later. In the opposite order, new work would look like a violation.
    let shipped = shipments::shipped(&databases.fulfilment).await?;
    let ledger = Ledger::read(&databases.psp).await?;
    let mut found = Violations(ledger.violations().collect());
    for order in shipped.keys() {
        found.0.extend(ledger.shipment_violations(order));
    }
    let stock = shipments::stock_mismatches(&databases.fulfilment).await?;
    found.add_all("I6 stock is reserved once", stock);
    Ok(found.0)
}

/// What holds once no work is open. Includes [`always`]. What only an operator can settle does not count: the
/// money of lost orders and of unexplained charges is listed by [`for_operator`].
pub async fn settled(databases: &Databases) -> anyhow::Result<Vec<Violation>> {
    let mut found = Violations(always(databases).await?);
    let illegal = orders::illegal_versions(&databases.order).await?;
    found.add_all("I4 only legal transitions", illegal);
    let unfinished = orders::unfinished(&databases.order).await?;
    found.add_all("L1 every order is terminal", unfinished);
    let lost = for_operator::lost_orders(databases).await?;
    let lost: BTreeSet<String> = lost.into_keys().collect();
    let mails = receipts::differences(databases, &lost).await?;
    found.add_all("E1 one mail per outcome", mails);
    check_totals(databases, &lost, &mut found).await?;
    // Open work is counted last. A mail that is written while the checks run is then reported as
    // missing above, or as open here. If open work were counted first, both checks could miss it, and
    // the system would look settled before the mail is sent.
    check_open_work(databases, &mut found).await?;
    Ok(found.0)
}

/// L2: no outbox row, attempt, refund or mail is open.
async fn check_open_work(databases: &Databases, found: &mut Violations) -> anyhow::Result<()> {
    for (name, pool) in [
        ("order", &databases.order),
        ("payment", &databases.payment),
        ("fulfilment", &databases.fulfilment),
    ] {
        let rows = query::count(pool, query::UNPUBLISHED).await?;
        if rows > 0 {
            found.add("L2 outbox empty", format!("{rows} rows in {name}"));
        }
    }
    for (invariant, pool, query) in [
        (
            "L2 no open attempts",
            &databases.payment,
            payments::OPEN_ATTEMPTS,
        ),
        (
            "L2 no open refunds",
            &databases.payment,
            payments::OPEN_REFUNDS,
        ),
        ("L2 no mail pending", &databases.receipt, receipts::PENDING),
    ] {
        let open = query::count(pool, query).await?;
        if open > 0 {
            found.add(invariant, open.to_string());
        }
    }
    Ok(())
}

/// L5, L1 and I2: the provider, payment, fulfilment and order agree on what was charged and shipped.
async fn check_totals(
    databases: &Databases,
    lost: &BTreeSet<String>,
    found: &mut Violations,
) -> anyhow::Result<()> {
    let ledger = Ledger::read(&databases.psp).await?;
    let captured = payments::captured(&databases.payment).await?;
    let unexplained = payments::unexplained(&databases.payment).await?;
    let differences = ledger.differences(&captured, &unexplained);
    found.add_all("L5 books = payments", differences);

    let orders = query::count(&databases.order, orders::SHIPPED).await?;
    let shipments = shipments::shipped(&databases.fulfilment).await?;
    let shipments = shipments.keys().filter(|it| !lost.contains(*it)).count();
    if orders != shipments as i64 {
        found.add(
            "L1 order and fulfilment agree",
            format!("{orders} orders are shipped, {shipments} shipments"),
        );
    }

    // A direct charge belongs to no order, so no order owes it.
    let direct = query::count(&databases.payment, payments::CAPTURED_DIRECTLY).await?;
    let unexplained: i64 = unexplained.values().sum();
    let taken = ledger.net_amount_without(lost) - direct - unexplained;
    let due = query::count(&databases.order, orders::AMOUNT_DUE).await?;
    if taken != due {
        found.add(
            "I2 the money adds up",
            format!("{taken} charged and not refunded, {due} due"),
        );
    }
    Ok(())
}

/// Collects violations.
#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.0.push(Violation {
            invariant,
            severity: Severity::Violated,
            detail: detail.into(),
            order_id: None,
        });
    }

    fn add_all(&mut self, invariant: &'static str, details: Vec<String>) {
        for detail in details {
            self.add(invariant, detail);
        }
    }
}
