//! Redrives parked messages on an operator's request: in order, through the same handler and the
//! same table of processed messages, one transaction per order.

use anyhow::Context as _;
use operators::{Operator, audit};
use serde_json::json;
use service_kit::database::{self, BoundedConnection, STORE_TIMEOUT};
use sqlx::{Connection as _, PgConnection, Postgres, Transaction};
use uuid::Uuid;

use crate::consumer::Handler;
use crate::delivery::Delivery;
use crate::fault::Fault;
use crate::parked::{self, Parked, orders};
use crate::processed;
use crate::processor::Processor;
use crate::raw_message::DecodeError;

/// Rows of a queue that are read at a time.
const QUEUE_ROWS_MAX: i64 = 100;

/// The result of a redrive.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Redriven {
    /// Messages that had their effect now.
    pub(crate) handled: usize,
    /// Messages that needed no effect: processed before, or of a type that is no longer wanted.
    pub(crate) dropped: usize,
    /// Messages of the order that are still parked.
    pub(crate) left: i64,
    /// The message that failed again and blocks the rest.
    pub(crate) failed: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Failure {
    pub(crate) id: i64,
    pub(crate) cause: String,
}

/// A redrive whose transaction is open.
struct Redrive<H: Handler> {
    result: Redriven,
    /// From each message that was handled, in their order.
    after_commit: Vec<H::AfterCommit>,
}

impl<H: Handler> Redrive<H> {
    fn new() -> Self {
        Self {
            result: Redriven::default(),
            after_commit: Vec::new(),
        }
    }
}

/// The result of discarding a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Discarded {
    /// The message is deleted. Contains the result for the messages behind it.
    Done(Redriven),
    /// The message waits behind the failed message, which must be redriven or discarded first.
    NotTheFailedMessage,
    /// No parked message has this id; it may have been redriven or discarded.
    Unknown,
}

impl<H: Handler> Processor<H> {
    /// Handles all parked messages of this message's order, from the first one, and stops at the
    /// first that fails again. Does nothing if the message is not, or no longer, parked.
    pub(crate) async fn redrive(&self, id: i64, operator: &Operator) -> anyhow::Result<Redriven> {
        let mut connection = None;
        let (mut tx, message) = self.begin(&mut connection, id).await?;
        let Some(message) = message else {
            operator.nothing_changed();
            return Ok(Redriven::default());
        };
        let mut redrive = Redrive::new();
        match message.subject {
            Some(subject) => self.redrive_queue(&mut tx, subject, &mut redrive).await?,
            None => {
                self.redrive_one(&mut tx, &message, &mut redrive).await?;
                redrive.result.left = i64::from(redrive.result.failed.is_some());
            }
        }
        let detail = json!({ "order_id": message.subject, "result": redrive.result });
        let subject = id.to_string();
        audit::record(&mut tx, operator, "parked.redrive", &subject, &detail).await?;
        let redriven = self.commit(tx, redrive).await?;
        tracing::info!(id, ?redriven, "parked messages redriven");
        Ok(redriven)
    }

    /// Deletes a failed message permanently, and redrives the messages behind it.
    pub(crate) async fn discard(&self, id: i64, operator: &Operator) -> anyhow::Result<Discarded> {
        let mut connection = None;
        let (mut tx, message) = self.begin(&mut connection, id).await?;
        let Some(message) = message else {
            operator.nothing_changed();
            return Ok(Discarded::Unknown);
        };
        if !message.failed {
            return Ok(Discarded::NotTheFailedMessage);
        }
        // Logged before the delete: only this line has the content afterwards. The audit row has who,
        // why and which message, but no personal data.
        let payload = message.raw.payload.as_deref().map(String::from_utf8_lossy);
        tracing::warn!(
            id, order_id = ?message.subject, position = ?message.position, cause = message.cause,
            headers = ?message.raw.headers, payload = payload.as_deref(),
            "operator discards parked message"
        );
        let event_id = match self.decode(&message) {
            Ok(Some(delivery)) => Some(delivery.envelope.id),
            _ => None,
        };
        if let Some(event_id) = event_id {
            // A redelivered copy must be skipped as a duplicate.
            processed::record_one(&mut tx, &self.settings.group, event_id).await?;
        }
        parked::remove(&mut tx, id).await?;
        let mut redrive = Redrive::new();
        if let Some(subject) = message.subject {
            self.redrive_queue(&mut tx, subject, &mut redrive).await?;
        }
        let detail = json!({
            "order_id": message.subject, "event_id": event_id, "cause": message.cause,
            "kafka_partition": message.position.partition, "kafka_offset": message.position.offset,
            "result": redrive.result,
        });
        let subject = id.to_string();
        audit::record(&mut tx, operator, "parked.discard", &subject, &detail).await?;
        Ok(Discarded::Done(self.commit(tx, redrive).await?))
    }

    /// Commits, and only then lets the handler start what follows.
    async fn commit(
        &self,
        tx: Transaction<'_, Postgres>,
        redrive: Redrive<H>,
    ) -> anyhow::Result<Redriven> {
        (self.settings.reached)("redrive.handled");
        tx.commit().await.context("committing a redrive")?;
        (self.settings.reached)("redrive.committed");
        if !redrive.after_commit.is_empty() {
            self.handler.committed(redrive.after_commit);
        }
        Ok(redrive.result)
    }

    /// Begins the transaction and locks the message. The short timeout reports an unreachable
    /// database long before the limit for the whole redrive. The caller owns the connection, because
    /// the transaction borrows it.
    async fn begin<'a>(
        &self,
        connection: &'a mut Option<BoundedConnection>,
        id: i64,
    ) -> anyhow::Result<(Transaction<'a, Postgres>, Option<Parked>)> {
        database::with_timeout(STORE_TIMEOUT, async {
            let connection = connection.insert(database::acquire(&self.pool).await?);
            let mut tx = connection.begin().await?;
            let message = self.lock_queue_of(&mut tx, id).await?;
            anyhow::Ok((tx, message))
        })
        .await
        .context("locking a parked message")
    }

    /// Locks the queue of the message's order, then reads the message.
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
            && !orders::lock(tx, group, subject).await?
        {
            return Ok(None);
        }
        Ok(parked::lock(tx, group, id).await?)
    }

    /// Redrives the queue of a locked order. An empty queue unblocks the order.
    async fn redrive_queue(
        &self,
        tx: &mut PgConnection,
        subject: Uuid,
        redrive: &mut Redrive<H>,
    ) -> anyhow::Result<()> {
        let group = &self.settings.group;
        while redrive.result.failed.is_none() {
            let messages = parked::queue(tx, group, subject, QUEUE_ROWS_MAX).await?;
            if messages.is_empty() {
                orders::release(tx, group, subject).await?;
                return Ok(());
            }
            for message in &messages {
                self.redrive_one(tx, message, redrive).await?;
                if redrive.result.failed.is_some() {
                    break;
                }
            }
        }
        redrive.result.left = parked::queue_len(tx, group, subject).await?;
        Ok(())
    }

    /// Redrives one message. If it fails again, only its new cause is stored.
    async fn redrive_one(
        &self,
        tx: &mut PgConnection,
        message: &Parked,
        redrive: &mut Redrive<H>,
    ) -> anyhow::Result<()> {
        match self.handle_again(tx, message).await {
            Ok(Some(after_commit)) => {
                redrive.result.handled += 1;
                redrive.after_commit.push(after_commit);
            }
            Ok(None) => redrive.result.dropped += 1,
            Err(Fault::Infrastructure(error)) => return Err(error),
            Err(Fault::Message(error)) => {
                let cause = format!("{error:#}");
                parked::mark_failed(tx, message.id, &cause).await?;
                let id = message.id;
                redrive.result.failed = Some(Failure { id, cause });
                return Ok(());
            }
        }
        parked::remove(tx, message.id).await?;
        Ok(())
    }

    /// Handles one message. `None` if it needed no effect.
    async fn handle_again(
        &self,
        tx: &mut PgConnection,
        message: &Parked,
    ) -> Result<Option<H::AfterCommit>, Fault> {
        let Some(delivery) = self.decode(message)? else {
            return Ok(None);
        };
        let mut savepoint = tx.begin().await?;
        let id = delivery.envelope.id;
        if !processed::record_one(&mut savepoint, &self.settings.group, id).await? {
            return Ok(None);
        }
        match self.handle(&mut savepoint, &[&delivery]).await {
            Ok(after_commit) => {
                savepoint.commit().await?;
                Ok(Some(after_commit))
            }
            Err(fault) => {
                savepoint.rollback().await?;
                Err(fault)
            }
        }
    }

    /// `None` for a type that the handler does not want.
    fn decode(&self, message: &Parked) -> Result<Option<Delivery>, Fault> {
        let unreadable = |error: DecodeError| Fault::Message(error.into());
        let event_type = message.raw.event_type().map_err(unreadable)?;
        let Some(event_type) = event_type.filter(|kind| self.handler.wants(*kind)) else {
            return Ok(None);
        };
        let origin = (self.settings.topic.as_str(), self.settings.group.as_str());
        Delivery::decode(message.raw.clone(), event_type, message.position, origin)
            .map(Some)
            .map_err(|(_, error)| unreadable(error))
    }
}
