//! What the console remembers and publishes to open pages. Everything here is bounded.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

use crate::actions::crash_points::ID_PREFIX;
use crate::state::{Armed, Mark, MarkKind, Move, State};

/// Marks that are kept.
const MARKS_MAX: usize = 100;
/// Orders that are tracked closely; the oldest makes room.
const FOLLOWED_MAX: usize = 20;
/// Accepted orders whose existence is checked; the oldest makes room.
const ACCEPTED_MAX: usize = 10_000;
/// Moves and marks that are buffered for a slow page. A slower page loses the oldest.
const EVENTS_BUFFERED_MAX: usize = 256;
/// Armed faults that are kept.
const ARMED_MAX: usize = 64;

/// An event of the stream, ready to send.
#[derive(Clone, Debug)]
pub(crate) struct StreamEvent {
    pub(crate) name: &'static str,
    pub(crate) json: Arc<str>,
}

/// Memory of the console, and its channels to the pages.
pub(crate) struct Hub {
    state: watch::Sender<Arc<str>>,
    events: broadcast::Sender<StreamEvent>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) marks: VecDeque<Mark>,
    /// Oldest first.
    pub(crate) followed: VecDeque<Uuid>,
    /// Orders for which the console itself received a 2xx, oldest first.
    accepted: VecDeque<Uuid>,
    accepted_set: BTreeSet<Uuid>,
    /// How many 2xx responses there were.
    pub(crate) responses_2xx: usize,
    pub(crate) armed: Vec<Armed>,
    /// Whether the connection between payment and provider is cut.
    pub(crate) is_cut: bool,
    /// Whether the demo's data is being deleted.
    pub(crate) is_resetting: bool,
    /// How often it was deleted. The sampler starts over when this changes.
    pub(crate) resets: u64,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self {
            state: watch::Sender::new(with_time(Utc::now(), &State::default())),
            events: broadcast::Sender::new(EVENTS_BUFFERED_MAX),
            memory: Mutex::default(),
        }
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a state to every open page, and to the next one that connects.
    pub(crate) fn publish(&self, at: DateTime<Utc>, state: &State) {
        self.state.send_replace(with_time(at, state));
    }

    pub(crate) fn states(&self) -> watch::Receiver<Arc<str>> {
        self.state.subscribe()
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<StreamEvent> {
        self.events.subscribe()
    }

    /// How many pages are connected.
    pub(crate) fn pages(&self) -> usize {
        self.events.receiver_count()
    }

    pub(crate) fn moved(&self, it: &Move) {
        self.send("move", it);
    }

    pub(crate) fn mark(
        &self,
        kind: MarkKind,
        label: impl Into<String>,
        process: Option<&str>,
        order_id: Option<Uuid>,
    ) {
        let mark = Mark {
            t: Utc::now(),
            kind,
            label: label.into(),
            process: process.map(str::to_owned),
            order_id,
        };
        self.send("mark", &mark);
        let mut memory = self.memory();
        push(&mut memory.marks, mark, MARKS_MAX);
    }

    pub(crate) fn follow(&self, order: Uuid) {
        let mut memory = self.memory();
        memory.followed.retain(|it| *it != order);
        push(&mut memory.followed, order, FOLLOWED_MAX);
    }

    fn send(&self, name: &'static str, value: &impl Serialize) {
        // Sending fails if no page is open. Serialising these types does not fail.
        if let Ok(json) = serde_json::to_string(value) {
            let _ = self.events.send(StreamEvent {
                name,
                json: json.into(),
            });
        }
    }
}

impl Memory {
    /// Remembers a 2xx for an order that must exist from now on.
    pub(crate) fn remember_accepted(&mut self, order: Uuid) {
        self.responses_2xx += 1;
        if !self.accepted_set.insert(order) {
            return;
        }
        if let Some(oldest) = push(&mut self.accepted, order, ACCEPTED_MAX) {
            self.accepted_set.remove(&oldest);
        }
    }

    /// The orders that must exist.
    pub(crate) fn accepted(&self) -> Vec<Uuid> {
        self.accepted.iter().copied().collect()
    }

    pub(crate) fn arm(&mut self, armed: Armed) {
        self.armed.retain(|it| it.id != armed.id);
        if self.armed.len() < ARMED_MAX {
            self.armed.push(armed);
        }
    }

    /// Forgets the crash points of a process that died: they were in its memory. Returns whether there
    /// were any.
    pub(crate) fn disarm(&mut self, process: &str) -> bool {
        let count = self.armed.len();
        let prefix = format!("{ID_PREFIX}{process}:");
        self.armed.retain(|armed| !armed.id.starts_with(&prefix));
        self.armed.len() < count
    }

    /// Forgets everything about orders that no longer exist.
    pub(crate) fn forget_orders(&mut self) {
        let marks = std::mem::take(&mut self.marks);
        *self = Self {
            marks,
            is_resetting: self.is_resetting,
            is_cut: self.is_cut,
            resets: self.resets,
            ..Self::default()
        };
    }
}

/// Adds at the end, and returns the oldest value if it had to make room.
fn push<T>(queue: &mut VecDeque<T>, value: T, max: usize) -> Option<T> {
    let oldest = (queue.len() >= max).then(|| queue.pop_front()).flatten();
    queue.push_back(value);
    oldest
}

/// The state's JSON with the time as its first member.
fn with_time(at: DateTime<Utc>, state: &State) -> Arc<str> {
    #[derive(Serialize)]
    struct Timed<'a> {
        at: DateTime<Utc>,
        #[serde(flatten)]
        state: &'a State,
    }
    let json = serde_json::to_string(&Timed { at, state });
    json.unwrap_or_default().into()
}
