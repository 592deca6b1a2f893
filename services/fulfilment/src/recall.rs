//! `fulfilment recall`: reads this service's own decisions back from the topic, after its database was
//! restored to an older state.
//!
//! A service that does not know its decisions would decide again, perhaps differently: it could reject an
//! order that it has shipped, and payment would refund it. So the recall runs before the service starts. It
//! only adds decisions and never changes one that the database has, so it can be repeated.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use events::{Envelope, EventType, FulfilmentRejected, FulfilmentShipped, Line, PaymentCaptured};
use inbox::History;
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::config::Recall;
use crate::domain::{
    Fact, PriorDecision, Recollection, RejectionReason, Status, per_sku, recollect,
};
use crate::store::recalled::{self, RecalledShipment};
use crate::store::{shipments, stock};

/// Longest wait for the sessions of a service that has just stopped.
const SESSIONS_END_MAX: Duration = Duration::from_secs(2);
const SESSIONS_POLL: Duration = Duration::from_millis(50);

/// The source of the events of this service.
const SOURCE: &str = "fulfilment";

/// What a recall found and changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// Decisions in the topic, with repeats.
    pub read: usize,
    /// Decisions that the database did not have.
    pub adopted: usize,
    /// Rejections of later attempts that it did not have.
    pub later_attempts: usize,
    /// Orders about which topic and database disagree.
    pub contradictions: BTreeSet<Uuid>,
    /// Units that were shipped but that the stock does not have, per SKU.
    pub short: BTreeMap<String, i64>,
    /// Shipped orders whose content is no longer in the topic: their stock is not reserved.
    pub without_lines: Vec<Uuid>,
}

/// A decision of this service, as the topic has it.
struct Decided {
    order_id: Uuid,
    attempt: i32,
    fact: Fact,
    envelope: Envelope,
}

/// How many sessions of the service are still open. Waits up to [`SESSIONS_END_MAX`], because those of a service
/// that has just stopped end a moment later.
async fn sessions_left(connection: &mut PgConnection) -> anyhow::Result<i64> {
    let deadline = Instant::now() + SESSIONS_END_MAX;
    loop {
        let sessions = recalled::services(connection).await?;
        if sessions == 0 || Instant::now() >= deadline {
            return Ok(sessions);
        }
        sleep(SESSIONS_POLL).await;
    }
}

/// Reads the whole topic. Every batch is one commit, so an interrupted recall can be repeated.
pub async fn recall(settings: &Recall) -> anyhow::Result<Recalled> {
    let mut connection = PgConnection::connect(&settings.database_url)
        .await
        .context("connecting to the database")?;
    let running = sessions_left(&mut connection).await?;
    ensure!(
        running == 0,
        "the fulfilment service is connected to this database ({running} sessions): stop every \
         replica first, because it would decide without knowing the decisions in the topic"
    );
    let mut history =
        History::open(&settings.kafka.kafka_brokers, &settings.kafka.kafka_topic).await?;
    let mut recall = Recalled::default();
    // The content of paid orders whose decision was not read yet.
    let mut paid: HashMap<Uuid, Vec<Line>> = HashMap::new();
    while let Some(events) = history.next(is_needed).await? {
        let mut decided = Vec::new();
        let mut captured = Vec::new();
        for envelope in events {
            match envelope.event_type {
                EventType::PaymentCaptured => {
                    let event: PaymentCaptured = envelope.open().context("reading a payment")?;
                    captured.push((event.order_id, event.lines));
                }
                _ if envelope.source == SOURCE => decided.push(Decided::read(envelope)?),
                _ => {}
            }
        }
        paid.extend(captured.iter().cloned());
        let mut tx = connection.begin().await.context("beginning")?;
        recall.apply(&mut tx, decided, &mut paid).await?;
        recall.fill_in(&mut tx, captured, &mut paid).await?;
        tx.commit().await.context("committing decisions")?;
    }
    recall.without_lines = recalled::without_lines(&mut connection).await?;
    // Last, because a recall that was interrupted does not count.
    recalled::complete(&mut connection)
        .await
        .context("recording the recall")?;
    connection.close().await.context("closing the connection")?;
    Ok(recall)
}

fn is_needed(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::PaymentCaptured | EventType::FulfilmentShipped | EventType::FulfilmentRejected
    )
}

impl Recalled {
    /// Adds the decisions that the database does not have, their stock and their events.
    async fn apply(
        &mut self,
        tx: &mut PgConnection,
        decided: Vec<Decided>,
        paid: &mut HashMap<Uuid, Vec<Line>>,
    ) -> anyhow::Result<()> {
        self.read += decided.len();
        let mut known = known(tx, decided.iter().map(|it| it.order_id)).await?;
        let (mut adopted, mut later, mut events) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for Decided {
            order_id,
            attempt,
            fact,
            envelope,
        } in decided
        {
            match recollect(known.get(&order_id).copied(), fact, attempt) {
                Recollection::Known => continue,
                Recollection::Contradiction => {
                    self.contradictions.insert(order_id);
                    continue;
                }
                Recollection::Adopt => {
                    let lines = paid.remove(&order_id).unwrap_or_default();
                    // A cancelled order has none: the request came before the payment.
                    let is_cancelled = fact.status() == Status::Cancelled;
                    let lines = if is_cancelled { vec![] } else { lines };
                    adopted.insert(order_id, (attempt, fact, lines));
                }
                Recollection::LaterAttempt => {
                    self.later_attempts += 1;
                    later.insert(order_id, attempt);
                }
            }
            let status = fact.status();
            known.insert(order_id, PriorDecision { status, attempt });
            events.push(envelope);
        }
        self.adopted += adopted.len();
        let shipped = adopted
            .values()
            .filter(|(_, fact, _)| *fact == Fact::Shipped)
            .flat_map(|(.., lines)| lines);
        let taken = owned(&per_sku(shipped));
        let rows: Vec<RecalledShipment> = adopted
            .into_iter()
            .map(|(order_id, (attempt, fact, lines))| {
                RecalledShipment::new(order_id, attempt, fact, &lines)
            })
            .collect::<Result<_, _>>()?;
        recalled::insert(tx, &rows)
            .await
            .context("adding decisions")?;
        self.take(tx, &taken).await?;
        let later: Vec<(Uuid, i32)> = later.into_iter().collect();
        shipments::record_rejected_attempts(tx, &later)
            .await
            .context("adding later attempts")?;
        // Published again, with the same ids. The outbox then has them, in case another service needs
        // them later.
        outbox::enqueue(tx, &events).await.context("writing events")
    }

    /// If the broker once lost its data, a decision may come before its payment in the topic. Then the content
    /// of the order comes later.
    async fn fill_in(
        &mut self,
        tx: &mut PgConnection,
        captured: Vec<(Uuid, Vec<Line>)>,
        paid: &mut HashMap<Uuid, Vec<Line>>,
    ) -> anyhow::Result<()> {
        let ids: BTreeSet<Uuid> = captured.iter().map(|(order_id, _)| *order_id).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let mut empty: BTreeSet<Uuid> = recalled::without_lines_of(tx, &ids)
            .await?
            .into_iter()
            .collect();
        let mut taken = BTreeMap::new();
        for (order_id, lines) in captured {
            if !empty.remove(&order_id) {
                continue;
            }
            recalled::set_lines(tx, order_id, &serde_json::to_value(&lines)?)
                .await
                .context("adding the content of an order")?;
            for (sku, quantity) in per_sku(&lines) {
                *taken.entry(sku.to_owned()).or_default() += quantity;
            }
        }
        // Orders that are decided no longer need their content.
        for order_id in known(tx, ids.into_iter()).await?.into_keys() {
            paid.remove(&order_id);
        }
        self.take(tx, &taken).await
    }

    /// Reserves what was shipped. The units existed when they were shipped. So a missing unit is a difference
    /// between the table and the warehouse, and no reason to drop the shipment.
    async fn take(
        &mut self,
        tx: &mut PgConnection,
        taken: &BTreeMap<String, i64>,
    ) -> anyhow::Result<()> {
        let skus: Vec<String> = taken.keys().cloned().collect();
        let available = stock::lock(tx, &skus).await.context("locking stock")?;
        for (sku, quantity) in taken {
            let left = available.get(sku).copied().unwrap_or_default();
            if *quantity > left {
                *self.short.entry(sku.clone()).or_default() += quantity - left;
            }
        }
        stock::take(tx, taken).await.context("reserving stock")
    }
}

impl Decided {
    fn read(envelope: Envelope) -> anyhow::Result<Self> {
        let (attempt, fact) = match envelope.event_type {
            EventType::FulfilmentShipped => {
                let event: FulfilmentShipped = envelope.open().context("reading a shipment")?;
                (event.attempt, Fact::Shipped)
            }
            _ => {
                let event: FulfilmentRejected = envelope.open().context("reading a rejection")?;
                let reason = RejectionReason::parse(&event.reason)
                    .with_context(|| format!("unknown reason {:?}", event.reason))?;
                (event.attempt, Fact::Rejected(reason))
            }
        };
        Ok(Self {
            order_id: envelope.subject,
            attempt,
            fact,
            envelope,
        })
    }
}

async fn known(
    tx: &mut PgConnection,
    orders: impl Iterator<Item = Uuid>,
) -> anyhow::Result<HashMap<Uuid, PriorDecision>> {
    let ids: BTreeSet<Uuid> = orders.collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let rows = shipments::lock(tx, &ids)
        .await
        .context("locking shipments")?;
    let mut known = HashMap::with_capacity(rows.len());
    for row in rows {
        let status: Status = row.status.parse()?;
        let attempt = row.attempt;
        known.insert(row.order_id, PriorDecision { status, attempt });
    }
    Ok(known)
}

fn owned(quantities: &BTreeMap<&str, i64>) -> BTreeMap<String, i64> {
    let all = quantities.iter();
    all.map(|(sku, quantity)| ((*sku).to_owned(), *quantity))
        .collect()
}

impl fmt::Display for Recalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            read,
            adopted,
            later_attempts,
            ..
        } = self;
        writeln!(
            f,
            "{read} decisions in the topic, {adopted} of them were missing here"
        )?;
        if *later_attempts > 0 {
            writeln!(
                f,
                "{later_attempts} rejections of later attempts were missing too"
            )?;
        }
        for (sku, units) in &self.short {
            writeln!(
                f,
                "! {sku}: {units} more units were shipped than the stock had: count the stock"
            )?;
        }
        for order in &self.without_lines {
            writeln!(
                f,
                "! {order}: shipped, but its content is no longer in the topic: correct the stock"
            )?;
        }
        for order in &self.contradictions {
            writeln!(
                f,
                "✗ {order}: the database has the opposite decision; nothing was changed: find out whether it \
                 shipped"
            )?;
        }
        Ok(())
    }
}
