//! What one customer does with one order: sends it, repeats it, sends it twice in parallel, or hangs
//! up. In every case the customer sends the same key until the order is known to be accepted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::drive::Clock;
use super::http::{Pool, Response};
use super::request::{Kind, Mix, Templates};
use super::tally::Tally;

/// With the back-off below, a customer gives up on an unresponsive system after about 20 seconds.
const TRIES_MAX: u32 = 15;
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Longest wait before a hang-up. Most responses take less, so hang-ups hit every stage of a request.
const HANGUP_PATIENCE_MAX: Duration = Duration::from_millis(50);
/// Long enough for the first request to be processed or lost.
const HANGUP_RETRY_DELAY: Duration = Duration::from_millis(500);

pub(crate) struct Customers {
    pool: Pool,
    templates: Templates,
    mix: Mix,
    clock: Clock,
    accepted: Arc<AtomicU64>,
    tally: Mutex<Tally>,
    later: TaskTracker,
}

impl Customers {
    pub(crate) fn new(
        pool: Pool,
        run: u32,
        mix: Mix,
        clock: Clock,
        accepted: Arc<AtomicU64>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            templates: Templates::new(pool.host(), run),
            pool,
            mix,
            clock,
            accepted,
            tally: Mutex::new(Tally::new()?),
            later: TaskTracker::new(),
        })
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Handles the run's `index`-th order. `due` may already have passed.
    pub(crate) async fn order(self: &Arc<Self>, index: u64, due: Instant) {
        let request = self.templates.request(index);
        self.tally().sent(due.elapsed());
        match self.mix.draw() {
            Kind::Plain => {
                self.send_until_accepted(&request, due, true).await;
            }
            Kind::Retried => {
                if let Some(id) = self.send_until_accepted(&request, due, true).await {
                    self.send_again(&request, id).await;
                }
            }
            Kind::Duplicated => self.send_twice(&request, due).await,
            Kind::HungUp => self.hang_up(request, due).await,
        }
    }

    /// Waits for the customers that hung up and retry later.
    pub(crate) async fn finish(&self) {
        self.later.close();
        self.later.wait().await;
    }

    pub(crate) fn take_tally(&self) -> anyhow::Result<Tally> {
        Ok(std::mem::replace(&mut *self.tally(), Tally::new()?))
    }

    /// Sends until the order is accepted. The latency counts from the due time to the response that
    /// accepts the order, retries included.
    async fn send_until_accepted(&self, request: &[u8], due: Instant, timed: bool) -> Option<Uuid> {
        let mut backoff = BACKOFF_MIN;
        for _ in 0..TRIES_MAX {
            let response = self.pool.exchange(request).await;
            if let Ok(Response {
                status: 200..300,
                order_id: Some(id),
                replayed,
                ..
            }) = response
            {
                self.accept(id, due, timed.then(|| due.elapsed()));
                if !timed {
                    self.tally().counts.hung_up_existed += u64::from(replayed);
                }
                return Some(id);
            }
            let wait = match response {
                Ok(response) if !response.is_retryable() => {
                    self.tally().rejected(response.status);
                    return None;
                }
                Ok(response) => {
                    self.tally().retry_later(response.status);
                    response.retry_after.unwrap_or(backoff)
                }
                Err(error) => {
                    self.tally().connection_error(&error);
                    backoff
                }
            };
            tokio::time::sleep(wait.min(BACKOFF_MAX)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
        self.tally().counts.unresolved += 1;
        None
    }

    /// Repeats a request that already has its response.
    async fn send_again(&self, request: &[u8], id: Uuid) {
        let sent = Instant::now();
        let response = self.pool.exchange(request).await;
        let mut tally = self.tally();
        tally.counts.retried += 1;
        match response {
            Ok(response) if response.is_retryable() => tally.retry_later(response.status),
            Ok(response) => {
                tally.replay(sent.elapsed());
                tally.counts.contradicted +=
                    u64::from(!response.replayed || response.order_id != Some(id));
            }
            Err(error) => tally.connection_error(&error),
        }
    }

    /// Sends two copies in parallel: at most one may create the order, and both must name the same
    /// order.
    async fn send_twice(&self, request: &[u8], due: Instant) {
        let timed = async || (self.pool.exchange(request).await, due.elapsed());
        let (left, right) = tokio::join!(timed(), timed());
        let mut accepted: Vec<(Uuid, bool, Duration)> = Vec::with_capacity(2);
        for (response, elapsed) in [left, right] {
            match response {
                Ok(Response {
                    status: 200..300,
                    order_id: Some(id),
                    replayed,
                    ..
                }) => accepted.push((id, replayed, elapsed)),
                Ok(response) if response.is_retryable() => {
                    self.tally().retry_later(response.status);
                }
                Ok(response) => self.tally().rejected(response.status),
                Err(error) => self.tally().connection_error(&error),
            }
        }
        self.tally().counts.duplicated += 1;
        if let [(left, left_replayed, _), (right, right_replayed, _)] = accepted[..] {
            self.tally().counts.contradicted +=
                u64::from(left != right || !(left_replayed || right_replayed));
        }
        match accepted.iter().min_by_key(|(_, _, elapsed)| *elapsed) {
            Some((id, _, elapsed)) => self.accept(*id, due, Some(*elapsed)),
            None => {
                self.send_until_accepted(request, due, true).await;
            }
        }
    }

    /// Sends the whole order and hangs up without reading the response. The customer retries later with
    /// the same key.
    async fn hang_up(self: &Arc<Self>, request: Vec<u8>, due: Instant) {
        // After an immediate hang-up most orders do not exist yet; after a later one nearly all do.
        let patience = if rand::rng().random_bool(0.5) {
            Duration::ZERO
        } else {
            rand::rng().random_range(Duration::ZERO..HANGUP_PATIENCE_MAX)
        };
        if let Err(error) = self.pool.hang_up(&request, patience).await {
            self.tally().connection_error(&error);
        }
        self.tally().counts.hung_up += 1;
        let customers = Arc::clone(self);
        self.later.spawn(async move {
            tokio::time::sleep(HANGUP_RETRY_DELAY).await;
            customers.send_until_accepted(&request, due, false).await;
        });
    }

    fn accept(&self, id: Uuid, due: Instant, latency: Option<Duration>) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.tally().accepted(id, self.clock.unix_us(due), latency);
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        // A panic elsewhere cannot leave the counters half changed, so a poisoned lock is usable.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
