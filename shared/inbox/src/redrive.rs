//! An operator's second chance for parked messages: through the same handler and ledger, in their
//! order, one transaction for one order.

use anyhow::Context as _;
use service_kit::database::{self, BoundedConnection, STORE_TIMEOUT};
use sqlx::{Connection as _, PgConnection, Postgres, Transaction};
use uuid::Uuid;

use crate::consumer::Handler;
use crate::delivery::Delivery;
use crate::fault::Fault;
use crate::parked::Parked;
use crate::work::{Work, measure_parked};
use crate::{ledger, parked};

/// Rows of a queue that are read at a time.
const QUEUE_ROWS_MAX: i64 = 100;

/// What a redrive came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Redriven {
    /// Messages that had their effect now.
    pub(crate) handled: usize,
    /// Messages that needed none: processed before, or of a type that is no longer wanted.
    pub(crate) dropped: usize,
    /// Messages of the order that are still parked.
    pub(crate) left: i64,
    /// The message that failed again and holds the rest up.
    pub(crate) failed: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Failure {
    pub(crate) id: i64,
    pub(crate) cause: String,
}

/// What an operator decided about a message, and what followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Discarded {
    /// It is gone; so much became of those behind it.
    Done(Redriven),
    /// It only waits behind another, which is to be decided first.
    NotTheCulprit,
    /// There is no such message, or no longer.
    Unknown,
}

impl<H: Handler> Work<H> {
    /// Handles all parked messages of this one's order, from the first on, and stops at the first
    /// that fails again. Nothing happens if the message is not parked (any more).
    pub(crate) async fn redrive(&self, id: i64) -> anyhow::Result<Redriven> {
        let mut loan = None;
        let (mut tx, message) = self.begin(&mut loan, id).await?;
        let mut redriven = Redriven::default();
        let Some(message) = message else {
            return Ok(redriven);
        };
        match message.subject {
            Some(subject) => self.drive_queue(&mut tx, subject, &mut redriven).await?,
            None => {
                self.drive(&mut tx, &message, &mut redriven).await?;
                redriven.left = i64::from(redriven.failed.is_some());
            }
        }
        (self.settings.reached)("redrive.handled");
        tx.commit().await.context("committing a redrive")?;
        (self.settings.reached)("redrive.committed");
        self.handler.committed();
        measure_parked(&self.pool).await;
        tracing::info!(id, ?redriven, "parked messages redriven");
        Ok(redriven)
    }

    /// Gives a culprit up for good, and drives what waited behind it.
    pub(crate) async fn discard(&self, id: i64) -> anyhow::Result<Discarded> {
        let mut loan = None;
        let (mut tx, message) = self.begin(&mut loan, id).await?;
        let Some(message) = message else {
            return Ok(Discarded::Unknown);
        };
        if !message.culprit {
            return Ok(Discarded::NotTheCulprit);
        }
        // First in the log, then gone: this line is all that remains of it.
        let payload = message.wire.payload.as_deref().map(String::from_utf8_lossy);
        tracing::warn!(
            id, order_id = ?message.subject, position = ?message.position, cause = message.cause,
            headers = ?message.wire.headers, payload = payload.as_deref(),
            "an operator discards a parked message"
        );
        if let Ok(Some(delivery)) = self.open(&message) {
            // A redelivery must not bring it back.
            ledger::record_one(&mut tx, &self.settings.group, delivery.envelope.id).await?;
        }
        parked::remove(&mut tx, id).await?;
        let mut redriven = Redriven::default();
        if let Some(subject) = message.subject {
            self.drive_queue(&mut tx, subject, &mut redriven).await?;
        }
        (self.settings.reached)("redrive.handled");
        tx.commit().await.context("committing a discard")?;
        (self.settings.reached)("redrive.committed");
        self.handler.committed();
        measure_parked(&self.pool).await;
        Ok(Discarded::Done(redriven))
    }

    /// What comes before the work. A store that is away shows here, long before the time for all of
    /// the work is over. The loan stays with the caller, because the transaction borrows it.
    async fn begin<'a>(
        &self,
        loan: &'a mut Option<BoundedConnection>,
        id: i64,
    ) -> anyhow::Result<(Transaction<'a, Postgres>, Option<Parked>)> {
        database::with_timeout(STORE_TIMEOUT, async {
            let connection = loan.insert(database::acquire(&self.pool).await?);
            let mut tx = connection.begin().await?;
            let message = self.lock_queue_of(&mut tx, id).await?;
            anyhow::Ok((tx, message))
        })
        .await
        .context("beginning with a parked message")
    }

    /// The message as it is once nobody else is at its queue.
    async fn lock_queue_of(
        &self,
        tx: &mut PgConnection,
        id: i64,
    ) -> anyhow::Result<Option<Parked>> {
        let group = &self.settings.group;
        let Some(message) = parked::find(tx, group, id).await? else {
            return Ok(None);
        };
        if let Some(subject) = message.subject
            && !parked::lock_order(tx, group, subject).await?
        {
            return Ok(None);
        }
        Ok(parked::lock(tx, group, id).await?)
    }

    /// The queue of an order that is locked; an empty one lets the order go on.
    async fn drive_queue(
        &self,
        tx: &mut PgConnection,
        subject: Uuid,
        redriven: &mut Redriven,
    ) -> anyhow::Result<()> {
        let group = &self.settings.group;
        while redriven.failed.is_none() {
            let messages = parked::queue(tx, group, subject, QUEUE_ROWS_MAX).await?;
            if messages.is_empty() {
                parked::release_order(tx, group, subject).await?;
                return Ok(());
            }
            for message in &messages {
                self.drive(tx, message, redriven).await?;
                if redriven.failed.is_some() {
                    break;
                }
            }
        }
        redriven.left = parked::queue_len(tx, group, subject).await?;
        Ok(())
    }

    /// One message, whose failure leaves no trace but its new cause.
    async fn drive(
        &self,
        tx: &mut PgConnection,
        message: &Parked,
        redriven: &mut Redriven,
    ) -> anyhow::Result<()> {
        match self.try_again(tx, message).await {
            Ok(true) => redriven.handled += 1,
            Ok(false) => redriven.dropped += 1,
            Err(Fault::Surroundings(error)) => return Err(error),
            Err(Fault::Message(error)) => {
                let cause = format!("{error:#}");
                parked::failed_again(tx, message.id, &cause).await?;
                let id = message.id;
                redriven.failed = Some(Failure { id, cause });
                return Ok(());
            }
        }
        parked::remove(tx, message.id).await?;
        Ok(())
    }

    /// Whether it had its effect now; false if it needed none.
    async fn try_again(&self, tx: &mut PgConnection, message: &Parked) -> Result<bool, Fault> {
        let Some(delivery) = self.open(message)? else {
            return Ok(false);
        };
        let mut savepoint = tx.begin().await?;
        let id = delivery.envelope.id;
        if !ledger::record_one(&mut savepoint, &self.settings.group, id).await? {
            return Ok(false);
        }
        let handled = self.handle(&mut savepoint, &[&delivery]).await;
        match handled {
            Ok(()) => savepoint.commit().await?,
            Err(fault) => {
                savepoint.rollback().await?;
                return Err(fault);
            }
        }
        Ok(true)
    }

    /// `None` if it is of a type that the handler does not ask for.
    fn open(&self, message: &Parked) -> Result<Option<Delivery>, Fault> {
        let unreadable = |error: crate::Undecodable| Fault::Message(error.into());
        let event_type = message.wire.event_type().map_err(unreadable)?;
        let Some(event_type) = event_type.filter(|kind| self.handler.wants(*kind)) else {
            return Ok(None);
        };
        let origin = (self.settings.topic.as_str(), self.settings.group.as_str());
        Delivery::open(message.wire.clone(), event_type, message.position, origin)
            .map(Some)
            .map_err(|(_, error)| unreadable(error))
    }
}
