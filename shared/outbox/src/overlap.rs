//! Uses both sides of the relay at once: while the broker acknowledges a batch, the database records the batch before it
//! and returns the batch after it.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use crate::batch;
use crate::delivery::{Deliveries, Sender};
use crate::positions::Minute;
use crate::session::{Session, bounded};
use crate::settings::Settings;
use crate::store::Row;

/// What the database does while a batch is delivered.
pub(crate) struct Meanwhile<'a> {
    pub(crate) settings: &'a Settings,
    /// The batch before, which is delivered and not recorded yet.
    pub(crate) unrecorded: Option<Deliveries>,
    pub(crate) minute: &'a mut Minute,
    /// The keys after which the next batch begins, to read it ahead.
    pub(crate) next_after: Option<Vec<i64>>,
}

impl Meanwhile<'_> {
    /// Returns the session, the recorded batch and the rows of the next one.
    async fn run(self, session: &mut Session) -> anyhow::Result<Done<'_>> {
        let wait_max = self.settings.store_wait_max;
        if let Some(unrecorded) = &self.unrecorded {
            let recorded = batch::record(session, unrecorded, self.minute);
            bounded(wait_max, recorded).await?;
        }
        let mut next = Vec::new();
        if let Some(after) = self.next_after {
            let read = batch::read_after(session, &after, self.settings.batch_rows_max);
            next = bounded(wait_max, read).await?;
        }
        Ok(Done {
            session,
            recorded: self.unrecorded,
            next,
        })
    }
}

struct Done<'s> {
    session: &'s mut Session,
    recorded: Option<Deliveries>,
    next: Vec<Row>,
}

/// The outcome of a batch, and of what the database did meanwhile.
pub(crate) struct Delivered {
    pub(crate) deliveries: Deliveries,
    pub(crate) recorded: Option<Deliveries>,
    pub(crate) next: Vec<Row>,
}

/// Delivers the rows. Keeps the database session alive while the relay waits for the broker.
pub(crate) async fn deliver(
    mut sender: Sender<'_>,
    session: &mut Session,
    (rows, held): (Vec<Row>, &BTreeSet<Uuid>),
    meanwhile: Meanwhile<'_>,
    wait_max: Duration,
) -> anyhow::Result<Delivered> {
    let (producer, settings) = (sender.producer, sender.settings);
    let count = rows.len();
    let delivery = sender.deliver(rows, held);
    let database = meanwhile.run(session);
    let too_late = tokio::time::sleep(wait_max);
    tokio::pin!(delivery, database, too_late);
    let (mut delivered, mut done) = (None, None);
    loop {
        if let Some(deliveries) = delivered.take_if(|_| done.is_some()) {
            let Some(Done { recorded, next, .. }) = done else {
                continue;
            };
            return Ok(Delivered {
                deliveries,
                recorded,
                next,
            });
        }
        tokio::select! {
            deliveries = &mut delivery, if delivered.is_none() => delivered = Some(deliveries),
            result = &mut database, if done.is_none() => done = Some(result?),
            // The producer would send the rest of the batch to brokers that may have lost their data.
            () = producer.brokers_lost(), if delivered.is_none() => {
                delivered = Some(Deliveries { undelivered: count, ..Deliveries::default() });
            }
            () = &mut too_late, if delivered.is_none() => producer.abandon(),
            () = tokio::time::sleep(settings.session_idle_max / 3) => {
                if let Some(done) = &mut done {
                    done.session.keep_alive().await?;
                }
            }
        }
    }
}
