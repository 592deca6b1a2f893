//! Pressure: how long work waits in a service, for the service that accepts it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use uuid::Uuid;

/// How long the wait of a finished step counts. A step under load takes much less.
const REMEMBERED: Duration = Duration::from_secs(1);

/// The waits of all queues of one service.
#[derive(Clone, Debug, Default)]
pub struct Pressure(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    common: Vec<Arc<QueueWait>>,
    by_principal: BTreeMap<String, Duration>,
}

/// What `GET /pressure` responds with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    /// How long an order that passes this service waits in its queues.
    pub seconds: f64,
    /// How much longer the orders of single principals wait, by [`principal_key`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds_by_principal: BTreeMap<String, f64>,
}

/// Stands for a principal in a response that other principals can read.
pub fn principal_key(principal: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, principal.as_bytes()).to_string()
}

/// The wait in one queue, as its worker sees it.
#[derive(Debug, Default)]
pub struct QueueWait(Mutex<Observed>);

#[derive(Debug, Default)]
struct Observed {
    /// Since when the current step takes.
    step_since: Option<Instant>,
    last: Option<(Instant, Duration)>,
}

impl Pressure {
    /// Adds a queue that all orders pass.
    pub fn queue(&self) -> Arc<QueueWait> {
        let queue = Arc::<QueueWait>::default();
        self.lock().common.push(queue.clone());
        queue
    }

    /// Replaces the waits of single principals. Zeros need not be listed.
    pub fn set_principals(&self, waits: BTreeMap<String, Duration>) {
        self.lock().by_principal = waits;
    }

    /// The sum over the queues: an order passes one after the other.
    pub fn waits(&self) -> Waits {
        let queues = self.lock();
        let waits: Duration = queues.common.iter().map(|queue| queue.wait()).sum();
        let by_principal = queues.by_principal.iter();
        Waits {
            seconds: waits.as_secs_f64(),
            seconds_by_principal: by_principal
                .map(|(principal, wait)| (principal_key(principal), wait.as_secs_f64()))
                .collect(),
        }
    }

    /// `GET /pressure`.
    pub fn routes(&self) -> Router {
        let respond = async |State(pressure): State<Self>| Json(pressure.waits());
        let routes = Router::new().route("/pressure", get(respond));
        routes.with_state(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueWait {
    /// A step begins. A step that does not end counts as a wait.
    pub fn begin(&self) {
        self.lock().step_since.get_or_insert_with(Instant::now);
    }

    /// The step has ended. `newest`: since when the newest entry that it took had waited. Not the oldest:
    /// that one may have waited for a reason of its own.
    pub fn end(&self, newest: Option<SystemTime>) {
        let mut observed = self.lock();
        observed.step_since = None;
        if let Some(newest) = newest {
            // Negative after a clock was set back; that counts as no wait.
            let wait = SystemTime::now().duration_since(newest).unwrap_or_default();
            observed.last = Some((Instant::now(), wait));
        }
    }

    fn wait(&self) -> Duration {
        let observed = self.lock();
        let step = observed.step_since.map(|since| since.elapsed());
        let last = observed.last.filter(|(at, _)| at.elapsed() < REMEMBERED);
        let last = last.map(|(_, wait)| wait);
        step.max(last).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Observed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn waits_of_queues_add_up_and_are_forgotten() {
        let pressure = Pressure::default();
        let (first, second) = (pressure.queue(), pressure.queue());
        assert_eq!(pressure.waits(), Waits::default());
        first.end(Some(SystemTime::now() - LONG));
        second.end(Some(SystemTime::now() - LONG));
        assert!(pressure.waits().seconds >= 40.0);
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(pressure.waits(), Waits::default());
    }

    #[tokio::test(start_paused = true)]
    async fn step_that_does_not_end_is_a_wait() {
        let pressure = Pressure::default();
        let queue = pressure.queue();
        queue.begin();
        tokio::time::advance(LONG).await;
        // A retry of the same step.
        queue.begin();
        assert!(pressure.waits().seconds >= 20.0);
        queue.end(None);
        assert_eq!(pressure.waits(), Waits::default());
    }
}
