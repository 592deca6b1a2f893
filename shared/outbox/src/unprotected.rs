//! The events of an unprotected program: they wait for the relay in memory instead of the table. If the process dies, or
//! Kafka does not accept them in time, they are lost.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use events::Envelope;
use tokio::task;

use crate::enqueue::shard_of;
use crate::store::Row;

/// Maximum number of events that wait. Further events are lost.
const WAITING_MAX: usize = 1_000_000;

static MEMORY: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Memory {
    /// Events of open transactions, by task: a service writes events and wakes the relay in the same task. Those of a
    /// transaction that failed are published with the next one of the task.
    written: HashMap<Option<task::Id>, Vec<Envelope>>,
    /// Events for the relay, in the order of the commits.
    committed: VecDeque<Row>,
}

/// Keeps the events until [`commit`].
pub(crate) fn write(events: &[Envelope]) {
    let mut memory = memory();
    let written = memory.written.entry(task::try_id()).or_default();
    written.extend_from_slice(events);
}

/// Passes the events of this task to the relay, after their transaction has committed.
pub(crate) fn commit() {
    let mut memory = memory();
    let events = memory.written.remove(&task::try_id()).unwrap_or_default();
    let room = WAITING_MAX.saturating_sub(memory.committed.len());
    let lost = events.len().saturating_sub(room);
    memory
        .committed
        .extend(events.into_iter().take(room).map(row));
    if lost > 0 {
        tracing::error!(lost, "events lost: too many wait for Kafka");
    }
}

/// Takes the oldest events, at most `rows_max`.
pub(crate) fn take(rows_max: u16) -> Vec<Row> {
    let mut memory = memory();
    let count = memory.committed.len().min(usize::from(rows_max));
    memory.committed.drain(..count).collect()
}

fn memory() -> MutexGuard<'static, Memory> {
    // No code panics while it holds the lock, so a poisoned lock is usable.
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The event as if it came from the table. Its id there does not matter: nothing marks it as published.
fn row(event: Envelope) -> Row {
    Row {
        id: 0,
        shard: shard_of(event.subject),
        event_id: event.id,
        event_type: event.event_type.as_str().to_owned(),
        source: event.source,
        subject: event.subject,
        correlation_id: event.correlation_id,
        traceparent: event.traceparent,
        payload: event.payload,
        created_at: event.time,
        republished: false,
    }
}
