//! Messages become effects, or are parked: the transactions of a consumer.

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
use crate::parked::NewParked;
use crate::settings::Settings;
use crate::{ledger, parked};

/// What consumers and redrives of one group share.
pub(crate) struct Work<H> {
    pub(crate) settings: Settings,
    pub(crate) pool: PgPool,
    pub(crate) handler: H,
}

impl<H: Handler> Work<H> {
    /// Works the batch off. An error leaves in it what is still to be done, to be tried again.
    pub(crate) async fn settle(&self, batch: &mut Batch) -> anyhow::Result<()> {
        if !batch.suspect {
            match self.together(&batch.messages).await {
                Ok(tally) => {
                    batch.tally.add(tally);
                    batch.messages.clear();
                    return Ok(());
                }
                Err(Fault::Surroundings(error)) => return Err(error),
                Err(Fault::Message(error)) => {
                    let error = format!("{error:#}");
                    tracing::info!(error, "a batch failed: looking for the message at fault");
                    batch.suspect = true;
                }
            }
        }
        self.one_by_one(batch).await
    }

    /// Each message in a transaction of its own, so that all others flow on. What follows a message
    /// that failed waits with it, if it is of the same order.
    async fn one_by_one(&self, batch: &mut Batch) -> anyhow::Result<()> {
        let mut held_up = Vec::new();
        let mut failure = None;
        let mut next = 0;
        while let Some(message) = batch.messages.get_mut(next) {
            let subject = message.subject();
            if subject.is_some() && held_up.contains(&subject) {
                next += 1;
                continue;
            }
            match self.alone(message).await {
                Ok(tally) => {
                    batch.tally.add(tally);
                    batch.messages.remove(next);
                }
                Err(Fault::Surroundings(error)) => return Err(error),
                Err(Fault::Message(error)) => {
                    held_up.push(subject);
                    failure = Some(error);
                    next += 1;
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// One message: handled, or parked after its last try.
    async fn alone(&self, message: &mut Message) -> Result<Tally, Fault> {
        let cause = match &message.content {
            Content::Unreadable(_, error) => error.to_string(),
            Content::Readable(_) => match self.together(std::slice::from_ref(message)).await {
                Err(Fault::Message(error)) => {
                    message.tries += 1;
                    if message.tries < self.settings.tries_max {
                        return Err(Fault::Message(error));
                    }
                    format!("{error:#}")
                }
                settled => return settled,
            },
        };
        let limit = self.settings.transaction_max;
        let parked = tokio::time::timeout(limit, self.park(message, &cause)).await;
        Ok(parked.context("parking takes too long")??)
    }

    /// Ledger and effects of readable messages in one transaction; what belongs to an order that is
    /// held up goes to the end of its queue.
    async fn together(&self, messages: &[Message]) -> Result<Tally, Fault> {
        if messages.is_empty() {
            return Ok(Tally::default());
        }
        let limit = self.settings.transaction_max;
        let tally = tokio::time::timeout(limit, self.transact(messages))
            .await
            .context("the transaction takes too long")??;
        self.handler.committed();
        metrics::counter!(metric::INBOX_PROCESSED).increment(tally.fresh as u64);
        metrics::counter!(metric::INBOX_DUPLICATES).increment(tally.duplicates as u64);
        metrics::histogram!(metric::INBOX_BATCH_SIZE).record(messages.len() as f64);
        self.count_parked(tally.parked).await;
        Ok(tally)
    }

    async fn transact(&self, messages: &[Message]) -> Result<Tally, Fault> {
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
        let mut recorded = ledger::record(&mut tx, group, ids.collect())
            .await
            .context("writing the ledger")?;
        let mut tally = Tally::default();
        let mut new: Vec<&Delivery> = Vec::with_capacity(messages.len());
        for message in messages {
            let Content::Readable(delivery) = &message.content else {
                continue;
            };
            if recorded.held.contains(&delivery.envelope.subject) {
                let queued = new_parked(message, "waits behind a parked message of its order", 0);
                let added = parked::add(&mut tx, group, &queued);
                match added.await.context("queueing behind a parked message")? {
                    true => tally.parked += 1,
                    false => tally.duplicates += 1,
                }
            // The same message may stand in one batch twice: only the first is let through.
            } else if recorded.fresh.remove(&delivery.envelope.id) {
                new.push(delivery);
            } else {
                tally.duplicates += 1;
            }
        }
        if !new.is_empty() {
            self.handle(&mut tx, &new).await?;
        }
        tally.fresh = new.len();
        (self.settings.reached)("inbox.handled");
        tx.commit().await.context("committing the batch")?;
        (self.settings.reached)("inbox.committed");
        Ok(tally)
    }

    /// Asks the handler. One that panics has failed: it must not end the consumer, again with every
    /// restart.
    pub(crate) async fn handle(
        &self,
        connection: &mut PgConnection,
        new: &[&Delivery],
    ) -> Result<(), Fault> {
        let handled = AssertUnwindSafe(self.handler.handle(connection, new)).catch_unwind();
        match handled.await {
            Ok(handled) => handled.map_err(Fault::of_handler),
            Err(_) => Err(Fault::Message(anyhow!("the handler panicked"))),
        }
    }

    /// Puts the message aside with its cause, and holds its order up.
    async fn park(&self, message: &Message, cause: &str) -> anyhow::Result<Tally> {
        let group = &self.settings.group;
        let mut connection = database::acquire(&self.pool)
            .await
            .context("beginning to park")?;
        let mut tx = connection.begin().await.context("beginning to park")?;
        if let Some(subject) = message.subject() {
            parked::hold_order(&mut tx, group, subject)
                .await
                .context("holding the order up")?;
        }
        if let Some(id) = message.ledger_id() {
            // Waits for whoever handles this very message just now, after a rebalance; if it was
            // handled, it is not parked.
            if !ledger::record_one(&mut tx, group, id).await? {
                return Ok(Tally {
                    duplicates: 1,
                    ..Tally::default()
                });
            }
            ledger::forget_one(&mut tx, group, id).await?;
        }
        let tries = i32::try_from(message.tries).unwrap_or(i32::MAX);
        let culprit = new_parked(message, cause, tries);
        let added = parked::add(&mut tx, group, &culprit)
            .await
            .context("parking a message")?;
        if !added {
            return Ok(Tally {
                duplicates: 1,
                ..Tally::default()
            });
        }
        tx.commit().await.context("committing a parked message")?;
        (self.settings.reached)("inbox.parked");
        let (order_id, position) = (message.subject(), message.position);
        tracing::error!(?order_id, ?position, cause, "a message is parked");
        self.count_parked(1).await;
        Ok(Tally {
            parked: 1,
            ..Tally::default()
        })
    }

    /// Tells the metrics that so many messages were parked just now.
    async fn count_parked(&self, parked: usize) {
        if parked > 0 {
            metrics::counter!(metric::INBOX_PARKED).increment(parked as u64);
            measure_parked(&self.pool).await;
        }
    }
}

/// Tells the metrics how many messages are parked. Nothing depends on it.
pub(crate) async fn measure_parked(pool: &PgPool) {
    let count = async { parked::count(&mut *database::acquire(pool).await?).await };
    match count.await {
        Ok(count) => metrics::gauge!(metric::INBOX_PARKED_MESSAGES).set(count as f64),
        Err(error) => tracing::debug!(%error, "parked messages not counted"),
    }
}

fn new_parked(message: &Message, cause: &str, tries: i32) -> NewParked {
    NewParked {
        wire: message.wire(),
        subject: message.subject(),
        ledger_id: message.ledger_id(),
        position: message.position,
        cause: cause.to_owned(),
        tries,
    }
}
