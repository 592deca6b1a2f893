//! What every route and task of the console shares.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::Utc;
use endpoints::Endpoints;
use endpoints::client;
use endpoints::operator::OperatorClient;
use endpoints::provider::Faults;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::hub::Hub;
use crate::problem::Problem;
use crate::queries::Pools;
use crate::settings::Options;
use crate::spans::Traces;
use crate::state::Proof;

/// The API key of the demo tenant. The console places orders with it.
pub(crate) const API_KEY: &str = "demo-key-acme";
/// The reason that the audit log shows for changes by the console.
pub(crate) const REASON: &str = "console";
/// Longest wait for an operator listener or for `/metrics`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// When a page opens and the proof is older than this, the checker runs at once.
const PROOF_AGE_MAX: chrono::Duration = chrono::Duration::seconds(1);
/// Longest wait of a new page for a fresh state.
const FRESH_STATE_WAIT: Duration = Duration::from_millis(800);

pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) hub: Hub,
    pub(crate) pools: Pools,
    /// For `/metrics` and `/readyz`.
    pub(crate) http: reqwest::Client,
    pub(crate) operator: OperatorClient,
    pub(crate) stop: CancellationToken,
    /// Wakes the sampler between two ticks.
    pub(crate) wake: Notify,
    /// Wakes the checker when a page opens.
    pub(crate) check_now: Notify,
    /// Work that outlives the request that started it. The console waits for it before it stops.
    pub(crate) background: TaskTracker,
    is_busy: AtomicBool,
    traces: Mutex<Traces>,
    proof: Mutex<Proof>,
}

impl App {
    pub(crate) fn new(options: Options, stop: CancellationToken) -> anyhow::Result<Self> {
        let endpoints = &options.endpoints;
        Ok(Self {
            hub: Hub::new(),
            pools: Pools::open(endpoints)?,
            http: client::http(REQUEST_TIMEOUT)?,
            operator: endpoints.operator(REASON, REQUEST_TIMEOUT)?,
            stop,
            wake: Notify::new(),
            check_now: Notify::new(),
            background: TaskTracker::new(),
            is_busy: AtomicBool::new(false),
            traces: Mutex::default(),
            proof: Mutex::default(),
            options,
        })
    }

    pub(crate) fn endpoints(&self) -> &Endpoints {
        &self.options.endpoints
    }

    pub(crate) fn traces(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether orders arrive faster than a person can follow. Then the console reads less often: the system
    /// needs the CPU, and the page shows only counters.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }

    /// What the checker found last.
    pub(crate) fn proof(&self) -> MutexGuard<'_, Proof> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> anyhow::Result<Faults> {
        Faults::of(self.endpoints(), REASON)
    }

    /// Fails while the demo's data is being deleted.
    pub(crate) fn ready(&self) -> Result<(), Problem> {
        match self.hub.memory().is_resetting {
            true => Err(Problem::conflict(
                "The demo's data is being deleted. Retry in a few seconds.",
            )),
            false => Ok(()),
        }
    }

    /// Wakes the checker, unless it has just checked.
    pub(crate) fn check_soon(&self) {
        let is_fresh = |at| Utc::now() - at < PROOF_AGE_MAX;
        if !self.proof().checked_at.is_some_and(is_fresh) {
            self.check_now.notify_one();
        }
    }

    /// Asks the sampler for a state now, and waits a moment for it. The sampler may have been idle.
    pub(crate) async fn sample_soon(&self) {
        let mut states = self.hub.states();
        states.mark_unchanged();
        self.wake.notify_one();
        // If the sampler waits for a slow database, the page shows the previous state until then.
        let _ = tokio::time::timeout(FRESH_STATE_WAIT, states.changed()).await;
    }
}
