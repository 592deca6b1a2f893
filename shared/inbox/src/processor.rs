//! The transactions of a consumer: each message has its effect or is parked.

use std::panic::AssertUnwindSafe;

use anyhow::{Context as _, anyhow};
use futures_util::FutureExt as _;
use service_kit::database;
use sqlx::{Connection as _, PgConnection, PgPool};
use telemetry::metric;

use crate::batch::{Batch, Content, Message, Tally};
use crate::consumer::Handler;
use crate::delivery::Delivery;
use crate::fault::Fault;
use crate::parked::{self, NewParked, orders};
use crate::processed;
use crate::settings::Settings;

/// Shared by the consumer and the redrives of one group.
pub(crate) struct Processor<H> {
    pub(crate) settings: Settings,
    pub(crate) pool: PgPool,
    pub(crate) handler: H,
}

impl<H: Handler> Processor<H> {
    /// Processes the batch. After an error the batch contains the messages that are still to be done.
    pub(crate) async fn process(&self, batch: &mut Batch) -> anyhow::Result<()> {
        if !batch.one_by_one {
            match self.process_together(&batch.messages).await {
                Ok(tally) => {
                    batch.tally.add(tally);
                    batch.messages.clear();
                    return Ok(());
                }
                Err(Fault::Infrastructure(error)) => return Err(error),
                Err(Fault::Message(error)) => {
                    let error = format!("{error:#}");
                    tracing::info!(error, "batch failed, processing its messages one by one");
                    batch.one_by_one = true;
                }
            }
        }
        self.process_one_by_one(batch).await
    }

    /// One transaction per message, so that one failure does not stop other orders. Later messages of
    /// a failed message's order wait with it.
    async fn process_one_by_one(&self, batch: &mut Batch) -> anyhow::Result<()> {
        let mut waiting = Vec::new();
        let mut failure = None;
        let mut next = 0;
        while let Some(message) = batch.messages.get_mut(next) {
            let subject = message.subject();
            if subject.is_some() && waiting.contains(&subject) {
                next += 1;
                continue;
            }
            match self.process_alone(message).await {
                Ok(tally) => {
                    batch.tally.add(tally);
                    batch.messages.remove(next);
                }
                Err(Fault::Infrastructure(error)) => return Err(error),
                Err(Fault::Message(error)) => {
                    waiting.push(subject);
                    failure = Some(error);
                    next += 1;
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Handles one message, or parks it after its last try.
    async fn process_alone(&self, message: &mut Message) -> Result<Tally, Fault> {
        let cause = match &message.content {
            Content::Unreadable(_, error) => error.to_string(),
            Content::Readable(_) => {
                match self.process_together(std::slice::from_ref(message)).await {
                    Err(Fault::Message(error)) => {
                        message.tries += 1;
                        if message.tries < self.settings.tries_max {
                            return Err(Fault::Message(error));
                        }
                        format!("{error:#}")
                    }
                    processed => return processed,
                }
            }
        };
        let limit = self.settings.transaction_max;
        let parked = database::with_timeout(limit, self.park(message, &cause)).await;
        Ok(parked.context("parking a message")?)
    }

    /// Records and handles the readable messages in one transaction. Messages of blocked orders go to
    /// the end of their order's queue.
    async fn process_together(&self, messages: &[Message]) -> Result<Tally, Fault> {
        if messages.is_empty() {
            return Ok(Tally::default());
        }
        let limit = self.settings.transaction_max;
        let (tally, after_commit) = database::with_timeout(limit, self.transact(messages)).await?;
        if let Some(after_commit) = after_commit {
            self.handler.committed(vec![after_commit]);
        }
        metrics::counter!(metric::INBOX_PROCESSED).increment(tally.fresh as u64);
        metrics::counter!(metric::INBOX_DUPLICATES).increment(tally.duplicates as u64);
        metrics::histogram!(metric::INBOX_BATCH_SIZE).record(messages.len() as f64);
        count_parked(tally.parked);
        Ok(tally)
    }

    /// The second value is `None` if nothing was handled.
    async fn transact(
        &self,
        messages: &[Message],
    ) -> Result<(Tally, Option<H::AfterCommit>), Fault> {
        let group = &self.settings.group;
        let mut connection = database::acquire(&self.pool)
            .await
            .context("beginning the batch")?;
        let mut tx = connection.begin().await.context("beginning the batch")?;
        let ids = messages
            .iter()
            .filter_map(|message| match &message.content {
                Content::Readable(delivery) => {
                    Some((delivery.envelope.id, delivery.envelope.subject))
                }
                Content::Unreadable(..) => None,
            });
        let mut recorded = processed::record(&mut tx, group, ids.collect())
            .await
            .context("recording processed messages")?;
        let mut tally = Tally::default();
        let mut new: Vec<&Delivery> = Vec::with_capacity(messages.len());
        for message in messages {
            let Content::Readable(delivery) = &message.content else {
                continue;
            };
            if recorded.blocked.contains(&delivery.envelope.subject) {
                let queued = new_parked(message, "waits behind a parked message of its order", 0);
                let added = parked::add(&mut tx, group, &queued);
                match added.await.context("queueing behind a parked message")? {
                    true => tally.parked += 1,
                    false => tally.duplicates += 1,
                }
            // A batch may contain the same message twice: only the first one is handled.
            } else if recorded.fresh.remove(&delivery.envelope.id) {
                new.push(delivery);
            } else {
                delivery.note_duplicate();
                tally.duplicates += 1;
            }
        }
        let after_commit = match new.is_empty() {
            true => None,
            false => Some(self.handle(&mut tx, &new).await?),
        };
        tally.fresh = new.len();
        (self.settings.reached)("inbox.handled");
        tx.commit().await.context("committing the batch")?;
        (self.settings.reached)("inbox.committed");
        Ok((tally, after_commit))
    }

    /// Calls the handler. A panic counts as a failure of the message: if it ended the consumer, it
    /// would do so again after every restart.
    pub(crate) async fn handle(
        &self,
        connection: &mut PgConnection,
        new: &[&Delivery],
    ) -> Result<H::AfterCommit, Fault> {
        let handled = AssertUnwindSafe(self.handler.handle(connection, new)).catch_unwind();
        match handled.await {
            Ok(handled) => handled.map_err(Fault::of_handler),
            Err(_) => Err(Fault::Message(anyhow!("the handler panicked"))),
        }
    }

    /// Stores the message with its cause, and blocks its order.
    async fn park(&self, message: &Message, cause: &str) -> anyhow::Result<Tally> {
        let group = &self.settings.group;
        let duplicate = Tally {
            duplicates: 1,
            ..Tally::default()
        };
        let mut connection = database::acquire(&self.pool)
            .await
            .context("beginning to park")?;
        let mut tx = connection.begin().await.context("beginning to park")?;
        if let Some(subject) = message.subject() {
            orders::block(&mut tx, group, subject)
                .await
                .context("blocking the order")?;
        }
        if let Some(id) = message.processed_id() {
            // After a rebalance another consumer may be handling this message. The insert waits for
            // its transaction. A message that was handled is not parked.
            if !processed::record_one(&mut tx, group, id).await? {
                return Ok(duplicate);
            }
            processed::forget_one(&mut tx, group, id).await?;
        }
        let tries = i32::try_from(message.tries).unwrap_or(i32::MAX);
        let failed = new_parked(message, cause, tries);
        let added = parked::add(&mut tx, group, &failed)
            .await
            .context("parking a message")?;
        if !added {
            return Ok(duplicate);
        }
        tx.commit().await.context("committing a parked message")?;
        (self.settings.reached)("inbox.parked");
        let (order_id, position) = (message.subject(), message.position);
        tracing::error!(?order_id, ?position, cause, "message parked");
        count_parked(1);
        Ok(Tally {
            parked: 1,
            ..Tally::default()
        })
    }
}

/// Counts messages that were parked now. The gauge of all parked messages reads the table at
/// intervals, not here: it would read the whole table after each message.
fn count_parked(parked: usize) {
    if parked > 0 {
        metrics::counter!(metric::INBOX_PARKED).increment(parked as u64);
    }
}

fn new_parked(message: &Message, cause: &str, tries: i32) -> NewParked {
    NewParked {
        raw: message.raw_message(),
        subject: message.subject(),
        processed_id: message.processed_id(),
        position: message.position,
        cause: cause.to_owned(),
        tries,
    }
}
