//! Ships paid orders, unless a cancellation request came first. Stock, decision and event commit in
//! the transaction that records the processed messages.

mod order_message;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use events::{Envelope, EventType, Line};
use inbox::{Delivery, Handler, WrongDatabase};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{
    Decision, PriorDecision, Reaction, RejectionReason, Status, allocate, next, react,
};
use crate::store::shipments::{self, NewDecision};
use crate::store::{recalled, stock};
use order_message::{OrderMessage, WANTED};

/// What stops a service that was started too early after a restore.
const NOT_RECALLED: WrongDatabase = WrongDatabase(
    "this database was restored from a backup and does not have all decisions: stop every replica and run \
     `fulfilment recall`, see docs/restore.md",
);

pub struct ShipPaid {
    pub wake: outbox::Wake,
    /// Whether this process has seen that its database has all decisions.
    pub has_all_decisions: AtomicBool,
}

impl ShipPaid {
    /// An error if the database was restored and nothing was recalled since. Checked once: a service must not
    /// run during a restore.
    async fn ensure_all_decisions(&self, tx: &mut PgConnection) -> anyhow::Result<()> {
        if !self.has_all_decisions.load(Ordering::Relaxed) {
            let is_complete = recalled::is_complete(tx).await.context("reading recalls")?;
            anyhow::ensure!(is_complete, NOT_RECALLED);
            self.has_all_decisions.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Handler for ShipPaid {
    type AfterCommit = ();

    fn wants(&self, event_type: EventType) -> bool {
        WANTED.contains(&event_type)
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        self.ensure_all_decisions(tx).await?;
        let mut messages = Vec::with_capacity(new.len());
        for delivery in new {
            messages.push(OrderMessage::decode(delivery)?);
        }
        let (first, later) = open(tx, messages).await?;
        let (paid, cancelled): (Vec<_>, Vec<_>) = first
            .into_iter()
            .partition(|message| react(None, message.event, message.attempt) == Reaction::Allocate);
        let mut events = decide_paid(tx, &paid).await?;
        for message in &cancelled {
            events.push(message.rejected(RejectionReason::Cancelled.as_str())?);
        }
        if !later.is_empty() {
            events.extend(react_to_later(tx, &later).await?);
        }
        outbox::enqueue(tx, &events).await.context("writing events")
    }

    fn committed(&self, _: Vec<()>) {
        self.wake.wake();
    }
}

/// Opens a shipment for each order that has none. Returns the messages that opened a shipment, and
/// the messages whose shipment an earlier message opened, in this batch or before it.
async fn open<'a>(
    tx: &mut PgConnection,
    messages: Vec<OrderMessage<'a>>,
) -> anyhow::Result<(Vec<OrderMessage<'a>>, Vec<OrderMessage<'a>>)> {
    let mut seen = HashSet::with_capacity(messages.len());
    let mut shipments = Vec::with_capacity(messages.len());
    for message in &messages {
        if seen.insert(message.order_id) {
            shipments.push(message.shipment()?);
        }
    }
    let opened = shipments::open(tx, &shipments)
        .await
        .context("opening shipments")?;
    let mut opened: HashSet<Uuid> = opened.into_iter().collect();
    // `remove` matches only the first message of an order, which is the one that opened it.
    Ok(messages
        .into_iter()
        .partition(|message| opened.remove(&message.order_id)))
}

/// Allocates stock to paid orders, and ships or rejects each. Returns the events.
async fn decide_paid(
    tx: &mut PgConnection,
    paid: &[OrderMessage<'_>],
) -> anyhow::Result<Vec<Envelope>> {
    if paid.is_empty() {
        return Ok(vec![]);
    }
    let skus: BTreeSet<&str> = paid
        .iter()
        .flat_map(|message| message.lines.iter().map(|line| line.sku.as_str()))
        .collect();
    let skus: Vec<String> = skus.into_iter().map(str::to_owned).collect();
    let available = stock::lock(tx, &skus).await.context("locking stock")?;
    let orders: Vec<&[Line]> = paid.iter().map(|message| &*message.lines).collect();
    let (decisions, reserved) = allocate(available, &orders);
    record(tx, paid, &decisions).await?;
    stock::reserve(tx, &reserved)
        .await
        .context("reserving stock")?;
    let mut events = Vec::with_capacity(paid.len());
    for (message, decision) in paid.iter().zip(&decisions) {
        events.push(match decision.rejection_reason() {
            None => message.shipped()?,
            Some(reason) => message.rejected(reason.as_str())?,
        });
    }
    Ok(events)
}

async fn record(
    tx: &mut PgConnection,
    paid: &[OrderMessage<'_>],
    decisions: &[Decision],
) -> anyhow::Result<()> {
    let new: Vec<NewDecision> = paid
        .iter()
        .zip(decisions)
        .filter_map(|(message, decision)| {
            Some(NewDecision {
                order_id: message.order_id,
                status: next(Status::Paid, *decision)?,
                reason: decision.rejection_reason(),
            })
        })
        .collect();
    let decided = shipments::decide(tx, &new)
        .await
        .context("recording decisions")?;
    // This transaction opened the shipments, so no other transaction can have decided them.
    anyhow::ensure!(
        decided.len() == paid.len(),
        "{} of {} new shipments were already decided",
        paid.len() - decided.len(),
        paid.len()
    );
    Ok(())
}

/// Reacts to messages about orders that are already decided. Nearly all change nothing; see
/// [`react`].
async fn react_to_later(
    tx: &mut PgConnection,
    later: &[OrderMessage<'_>],
) -> anyhow::Result<Vec<Envelope>> {
    let ids: BTreeSet<Uuid> = later.iter().map(|message| message.order_id).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let stored = shipments::lock(tx, &ids)
        .await
        .context("locking shipments")?;
    let mut decided = BTreeMap::new();
    for row in stored {
        let status: Status = row.status.parse()?;
        let attempt = row.attempt;
        let reason = row.reason.unwrap_or_default();
        decided.insert(row.order_id, (PriorDecision { status, attempt }, reason));
    }
    let mut events = Vec::new();
    let mut rejected = BTreeMap::new();
    for message in later {
        let (order_id, attempt) = (message.order_id, message.attempt);
        let Some((prior, reason)) = decided.get_mut(&order_id) else {
            anyhow::bail!("shipment {order_id} conflicted on insert but was not found");
        };
        match react(Some(*prior), message.event, attempt) {
            Reaction::RejectAttempt => {
                prior.attempt = attempt;
                rejected.insert(order_id, attempt);
                events.push(message.rejected(reason)?);
            }
            Reaction::Allocate | Reaction::Cancel | Reaction::Keep => {
                let (event, status) = (message.event, prior.status);
                tracing::debug!(%order_id, ?event, attempt, ?status, "order already decided");
            }
        }
    }
    if !rejected.is_empty() {
        let rejected: Vec<(Uuid, i32)> = rejected.into_iter().collect();
        shipments::record_rejected_attempts(tx, &rejected)
            .await
            .context("rejecting later attempts")?;
    }
    Ok(events)
}
