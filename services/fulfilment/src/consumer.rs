//! What was paid is shipped: stock, decision and event in the transaction of the ledger.

use std::collections::{BTreeSet, HashSet};

use anyhow::Context as _;
use events::{Envelope, EventType, FulfilmentRejected, FulfilmentShipped, Origin, PaymentCaptured};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;

use crate::domain::{Decision, Demand, Status, allocate, next};
use crate::store::shipments::{self, NewShipment, Verdict};
use crate::store::stock;

/// The name under which this service announces events.
const SOURCE: &str = "fulfilment";
/// The version of the payloads.
const PAYLOAD_VERSION: u16 = 1;

pub struct ShipPaid {
    pub wake: outbox::Wake,
}

impl Handler for ShipPaid {
    fn wants(&self, event_type: EventType) -> bool {
        event_type == EventType::PaymentCaptured
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        let mut paid = Vec::with_capacity(new.len());
        for delivery in new {
            let event = delivery
                .envelope
                .open()
                .context("reading payment.captured")?;
            paid.push(Paid { delivery, event });
        }
        let undecided = open(tx, paid).await?;
        let skus: BTreeSet<String> = undecided
            .iter()
            .flat_map(|paid| paid.event.lines.iter().map(|line| line.sku.clone()))
            .collect();
        let skus: Vec<String> = skus.into_iter().collect();
        let shelf = stock::lock(tx, &skus).await.context("locking stock")?;
        let demands: Vec<Demand<'_>> = undecided.iter().map(Paid::demand).collect();
        let (decisions, taken) = allocate(shelf, &demands);
        decide(tx, &undecided, &decisions).await?;
        stock::reserve(tx, &taken)
            .await
            .context("reserving stock")?;
        let events = undecided
            .iter()
            .zip(&decisions)
            .map(|(paid, decision)| paid.announce(*decision))
            .collect::<Result<Vec<_>, _>>()?;
        outbox::enqueue(tx, &events).await.context("writing events")
    }

    fn committed(&self) {
        self.wake.wake();
    }
}

struct Paid<'a> {
    delivery: &'a Delivery,
    event: PaymentCaptured,
}

/// Opens the shipments, and keeps only those that nobody has opened before.
async fn open<'a>(tx: &mut PgConnection, paid: Vec<Paid<'a>>) -> anyhow::Result<Vec<Paid<'a>>> {
    let mut shipments = Vec::with_capacity(paid.len());
    for paid in &paid {
        shipments.push(NewShipment {
            order_id: paid.event.order_id,
            attempt: paid.event.attempt,
            lines: serde_json::to_value(&paid.event.lines)?,
        });
    }
    let opened = shipments::open(tx, &shipments)
        .await
        .context("opening shipments")?;
    let mut opened: HashSet<_> = opened.into_iter().collect();
    Ok(paid
        .into_iter()
        .filter(|paid| opened.remove(&paid.event.order_id))
        .collect())
}

async fn decide(
    tx: &mut PgConnection,
    undecided: &[Paid<'_>],
    decisions: &[Decision],
) -> anyhow::Result<()> {
    let verdicts: Vec<Verdict> = undecided
        .iter()
        .zip(decisions)
        .filter_map(|(paid, decision)| {
            Some(Verdict {
                order_id: paid.event.order_id,
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
        decided.len() == undecided.len(),
        "a shipment was decided by somebody else"
    );
    Ok(())
}

impl Paid<'_> {
    fn demand(&self) -> Demand<'_> {
        Demand {
            order_id: self.event.order_id,
            lines: &self.event.lines,
        }
    }

    fn announce(&self, decision: Decision) -> Result<Envelope, serde_json::Error> {
        let origin = Origin {
            source: SOURCE,
            correlation_id: &self.delivery.envelope.correlation_id,
            traceparent: self.delivery.traceparent(),
        };
        let (order_id, attempt) = (self.event.order_id, self.event.attempt);
        match decision.reason() {
            None => Envelope::seal(
                origin,
                &FulfilmentShipped {
                    v: PAYLOAD_VERSION,
                    order_id,
                    attempt,
                },
            ),
            Some(reason) => Envelope::seal(
                origin,
                &FulfilmentRejected {
                    v: PAYLOAD_VERSION,
                    order_id,
                    attempt,
                    reason: reason.to_owned(),
                },
            ),
        }
    }
}
