//! The one checker of what must hold, over the databases of a running system.
//!
//! It reads every service's own tables and the provider's books, and compares. What must hold at any
//! moment is [`always`]; what must hold once faults have healed and work is done is [`settled`].

mod books;
mod receipts;

use std::fmt;

use anyhow::Context;
use sqlx::PgPool;

use books::Books;
use endpoints::provider::connect;
use endpoints::{Endpoints, Service};

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

/// A broken invariant, by its name in ARCHITECTURE.md, with what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.seen)
    }
}

/// What holds at every moment, whatever is broken just now.
pub async fn always(databases: &Databases) -> anyhow::Result<Vec<Violation>> {
    // Effects before causes: what is read later can only have grown meanwhile.
    let shipped = books::shipped(&databases.fulfilment).await?;
    let books = Books::read(&databases.psp).await?;
    let mut found = Vec::new();
    for (order, charges) in books.charged_more_than_once() {
        report(
            &mut found,
            "I1 one charge per order",
            format!("{order} has {charges}"),
        );
    }
    for (order, refunds) in books.refunded_more_than_once() {
        report(
            &mut found,
            "I1 one refund per charge",
            format!("{order} has {refunds}"),
        );
    }
    for order in shipped.keys().filter(|order| books.is_refunded(order)) {
        report(
            &mut found,
            "I5 nothing ships that was refunded",
            order.to_string(),
        );
    }
    for order in shipped.keys().filter(|order| !books.is_charged(order)) {
        report(
            &mut found,
            "I5 no shipment without a capture",
            order.to_string(),
        );
    }
    for sku in books::stock_that_does_not_add_up(&databases.fulfilment).await? {
        report(&mut found, "I6 stock is reserved once", sku);
    }
    Ok(found)
}

/// What holds when nothing is under way any more; includes [`always`].
pub async fn settled(databases: &Databases) -> anyhow::Result<Vec<Violation>> {
    let mut found = always(databases).await?;
    let books = Books::read(&databases.psp).await?;
    let shipped = books::shipped(&databases.fulfilment).await?;
    let captured = books::captured(&databases.payment).await?;
    for order in books::illegal_versions(&databases.order).await? {
        report(&mut found, "I4 only legal transitions", order);
    }
    for order in books::unfinished(&databases.order).await? {
        report(&mut found, "L1 every order is terminal", order);
    }
    for (name, pool) in [
        ("order", &databases.order),
        ("payment", &databases.payment),
        ("fulfilment", &databases.fulfilment),
    ] {
        let left = count(
            pool,
            "select count(*) from outbox where published_at is null",
        )
        .await?;
        if left > 0 {
            report(
                &mut found,
                "L2 outbox empty",
                format!("{left} rows in {name}"),
            );
        }
    }
    for (invariant, query) in [
        (
            "L2 no open attempts",
            "select count(*) from payments where status in ('pending', 'unknown')",
        ),
        (
            "L2 no open refunds",
            "select count(*) from refunds where status <> 'refunded'",
        ),
    ] {
        let open = count(&databases.payment, query).await?;
        if open > 0 {
            report(&mut found, invariant, open.to_string());
        }
    }
    for difference in books.differences(&captured) {
        report(&mut found, "L5 books = payments", difference);
    }
    for difference in receipts::differences(&databases.payment, &databases.receipt).await? {
        report(&mut found, "E1 one receipt per captured order", difference);
    }
    let pending = "select count(*) from receipts where status = 'pending'";
    let pending = count(&databases.receipt, pending).await?;
    if pending > 0 {
        report(&mut found, "L2 no receipt pending", format!("{pending}"));
    }
    let orders = books::shipped_orders(&databases.order).await?;
    if orders != shipped.len() as i64 {
        let seen = format!("{orders} orders are shipped, {} shipments", shipped.len());
        report(&mut found, "L1 order and fulfilment agree", seen);
    }
    // Direct charges are owed by no order.
    let direct = books::captured_directly(&databases.payment).await?;
    let taken = books.total() - direct;
    let due = books::amount_due(&databases.order).await?;
    if taken != due {
        report(
            &mut found,
            "I2 the money adds up",
            format!("{taken} taken and not given back, {due} due"),
        );
    }
    Ok(found)
}

fn report(found: &mut Vec<Violation>, invariant: &'static str, seen: String) {
    found.push(Violation { invariant, seen });
}

async fn count(pool: &PgPool, query: &'static str) -> anyhow::Result<i64> {
    sqlx::query_scalar(query)
        .fetch_one(pool)
        .await
        .with_context(|| format!("counting: {query}"))
}
