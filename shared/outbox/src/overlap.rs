//! Overlaps delivery with database work: while the broker acknowledges a batch, the database records the previous one and
//! returns the next one.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use crate::batch;
use crate::delivery::{Deliveries, Sender};
use crate::positions::Minute;
use crate::session::{Session, bounded};
use crate::settings::Settings;
use crate::store::{InFlight, Row};

/// What the database does while a batch is delivered.
pub(crate) struct DatabaseWork<'a> {
    pub(crate) settings: &'a Settings,
    /// The previous batch, which is delivered and not recorded yet.
    pub(crate) unrecorded: Option<Deliveries>,
    pub(crate) minute: &'a mut Minute,
    /// The rows in flight, if the next batch is to be read ahead.
    pub(crate) reads_ahead_of: Option<InFlight>,
}

struct WorkDone<'s> {
    session: &'s mut Session,
    recorded: Option<Deliveries>,
    next: Vec<Row>,
}

impl DatabaseWork<'_> {
    async fn run(self, session: &mut Session) -> anyhow::Result<WorkDone<'_>> {
        let wait_max = self.settings.store_wait_max;
        if let Some(unrecorded) = &self.unrecorded {
            let recorded = batch::record(session, unrecorded, self.minute);
            bounded(wait_max, recorded).await?;
        }
        let mut next = Vec::new();
        if let Some(in_flight) = self.reads_ahead_of {
            let read = batch::read_ahead(session, &in_flight, self.settings.batch_rows_max);
            next = bounded(wait_max, read).await?;
        }
        Ok(WorkDone {
            session,
            recorded: self.unrecorded,
            next,
        })
    }
}

/// What became of a batch, and what the database did during the delivery.
pub(crate) struct Overlapped {
    pub(crate) deliveries: Deliveries,
    pub(crate) recorded: Option<Deliveries>,
    pub(crate) next: Vec<Row>,
}

/// Delivers the rows. Keeps the database session alive while the relay waits for the broker.
pub(crate) async fn deliver(
    mut sender: Sender<'_>,
    session: &mut Session,
    (rows, held): (Vec<Row>, &BTreeSet<Uuid>),
    work: DatabaseWork<'_>,
    wait_max: Duration,
) -> anyhow::Result<Overlapped> {
    let (producer, settings) = (sender.producer, sender.settings);
    let count = rows.len();
    let delivery = sender.deliver(rows, held);
    let work = work.run(session);
    let too_late = tokio::time::sleep(wait_max);
    tokio::pin!(delivery, work, too_late);
    let mut delivered = None;
    let mut done: Option<WorkDone<'_>> = None;
    loop {
        match (delivered.take(), done.take()) {
            (Some(deliveries), Some(WorkDone { recorded, next, .. })) => {
                return Ok(Overlapped {
                    deliveries,
                    recorded,
                    next,
                });
            }
            both => (delivered, done) = both,
        }
        tokio::select! {
            deliveries = &mut delivery, if delivered.is_none() => delivered = Some(deliveries),
            result = &mut work, if done.is_none() => done = Some(result?),
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
