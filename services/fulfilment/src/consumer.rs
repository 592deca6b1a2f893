//! What was paid is shipped, unless it was called off before: stock, decision and event in the
//! transaction of the ledger.

mod heard;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use anyhow::Context as _;
use events::{Envelope, EventType};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{CANCELLED, Decision, Demand, Known, Ruling, Status, allocate, next, rule};
use crate::store::shipments::{self, Verdict};
use crate::store::stock;
use heard::Heard;

pub struct ShipPaid {
    pub wake: outbox::Wake,
}

impl Handler for ShipPaid {
    fn wants(&self, event_type: EventType) -> bool {
        matches!(
            event_type,
            EventType::PaymentCaptured | EventType::OrderCancelRequested
        )
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        let mut heard = Vec::with_capacity(new.len());
        for delivery in new {
            heard.push(Heard::read(delivery)?);
        }
        let (first, late) = open(tx, heard).await?;
        let (paid, called_off): (Vec<_>, Vec<_>) = first
            .into_iter()
            .partition(|heard| rule(None, heard.ask, heard.attempt) == Ruling::Allocate);
        let mut events = ship(tx, &paid).await?;
        for heard in &called_off {
            events.push(heard.refused(CANCELLED)?);
        }
        if !late.is_empty() {
            events.extend(answer_late(tx, &late).await?);
        }
        outbox::enqueue(tx, &events).await.context("writing events")
    }

    fn committed(&self) {
        self.wake.wake();
    }
}

/// Opens a shipment for each order that is heard of for the first time. Returns the messages that
/// did, and those that came after them, in this batch or in an earlier one.
async fn open<'a>(
    tx: &mut PgConnection,
    heard: Vec<Heard<'a>>,
) -> anyhow::Result<(Vec<Heard<'a>>, Vec<Heard<'a>>)> {
    let mut named = HashSet::with_capacity(heard.len());
    let mut shipments = Vec::with_capacity(heard.len());
    for heard in &heard {
        if named.insert(heard.order_id) {
            shipments.push(heard.shipment()?);
        }
    }
    let opened = shipments::open(tx, &shipments)
        .await
        .context("opening shipments")?;
    let mut opened: HashSet<Uuid> = opened.into_iter().collect();
    // `remove` lets only the first message of an order through, which is the one that opened it.
    Ok(heard
        .into_iter()
        .partition(|heard| opened.remove(&heard.order_id)))
}

/// Gives out stock, and decides: what there is enough of ships.
async fn ship(tx: &mut PgConnection, paid: &[Heard<'_>]) -> anyhow::Result<Vec<Envelope>> {
    if paid.is_empty() {
        return Ok(vec![]);
    }
    let skus: BTreeSet<&str> = paid
        .iter()
        .flat_map(|paid| paid.lines.iter().map(|line| line.sku.as_str()))
        .collect();
    let skus: Vec<String> = skus.into_iter().map(str::to_owned).collect();
    let shelf = stock::lock(tx, &skus).await.context("locking stock")?;
    let demands: Vec<Demand<'_>> = paid.iter().map(Heard::demand).collect();
    let (decisions, taken) = allocate(shelf, &demands);
    decide(tx, paid, &decisions).await?;
    stock::reserve(tx, &taken)
        .await
        .context("reserving stock")?;
    let mut events = Vec::with_capacity(paid.len());
    for (paid, decision) in paid.iter().zip(&decisions) {
        events.push(match decision.reason() {
            None => paid.shipped()?,
            Some(reason) => paid.refused(reason)?,
        });
    }
    Ok(events)
}

async fn decide(
    tx: &mut PgConnection,
    paid: &[Heard<'_>],
    decisions: &[Decision],
) -> anyhow::Result<()> {
    let verdicts: Vec<Verdict> = paid
        .iter()
        .zip(decisions)
        .filter_map(|(paid, decision)| {
            Some(Verdict {
                order_id: paid.order_id,
                status: next(Status::Paid, *decision)?.as_str(),
                reason: decision.reason(),
            })
        })
        .collect();
    let decided = shipments::decide(tx, &verdicts)
        .await
        .context("deciding shipments")?;
    // They were opened by this very transaction, so nobody can have decided them.
    anyhow::ensure!(
        decided.len() == paid.len(),
        "a shipment was decided by somebody else"
    );
    Ok(())
}

/// Messages about orders that are decided. Nearly all of them change nothing; see [`rule`].
async fn answer_late(tx: &mut PgConnection, late: &[Heard<'_>]) -> anyhow::Result<Vec<Envelope>> {
    let ids: BTreeSet<Uuid> = late.iter().map(|heard| heard.order_id).collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let decided = shipments::lock(tx, &ids)
        .await
        .context("locking shipments")?;
    let mut known = BTreeMap::new();
    for shipment in decided {
        let status: Status = shipment.status.parse()?;
        let attempt = shipment.attempt;
        let reason = shipment.reason.unwrap_or_default();
        known.insert(shipment.order_id, (Known { status, attempt }, reason));
    }
    let mut events = Vec::new();
    let mut refused = BTreeMap::new();
    for heard in late {
        let (order_id, attempt) = (heard.order_id, heard.attempt);
        let Some((known, reason)) = known.get_mut(&order_id) else {
            anyhow::bail!("the shipment of {order_id} is there and is not");
        };
        match rule(Some(*known), heard.ask, attempt) {
            Ruling::RefuseAlso => {
                known.attempt = attempt;
                refused.insert(order_id, attempt);
                events.push(heard.refused(reason)?);
            }
            Ruling::Allocate | Ruling::Cancel | Ruling::Stand => {
                let (ask, status) = (heard.ask, known.status);
                tracing::debug!(%order_id, ?ask, attempt, ?status, "decided before");
            }
        }
    }
    if !refused.is_empty() {
        let refused: Vec<(Uuid, i32)> = refused.into_iter().collect();
        shipments::refuse_also(tx, &refused)
            .await
            .context("refusing later attempts")?;
    }
    Ok(events)
}
