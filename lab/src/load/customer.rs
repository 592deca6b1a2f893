//! What one customer does with one order: send it, repeat it, send it twice at once, or hang up on it.
//! Whatever happens, the same key goes out until the order is known to be accepted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::drive::Clock;
use super::http::{Pool, Reply};
use super::request::{Kind, Mix, Templates};
use super::tally::Tally;

/// With the back-off below, about 20 seconds of a system that does not answer.
const TRIES_MAX: u32 = 15;
const BACKOFF_MIN: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Longer than most answers take: the request is caught at every stage of its life.
const HANGUP_PATIENCE_MAX: Duration = Duration::from_millis(50);
/// Long enough that the first request has been worked on, or lost, by then.
const HANGUP_RETRY_DELAY: Duration = Duration::from_millis(500);

pub(super) struct Customers {
    pool: Pool,
    templates: Templates,
    mix: Mix,
    clock: Clock,
    accepted: Arc<AtomicU64>,
    tally: Mutex<Tally>,
    later: TaskTracker,
}

impl Customers {
    pub(super) fn new(
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

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// The run's `index`-th order, due at a moment that may already have passed.
    pub(super) async fn order(self: &Arc<Self>, index: u64, due: Instant) {
        let request = self.templates.request(index);
        self.tally().sent(due.elapsed());
        match self.mix.draw() {
            Kind::Plain => {
                self.settle(&request, due, true).await;
            }
            Kind::Retried => {
                if let Some(id) = self.settle(&request, due, true).await {
                    self.send_again(&request, id).await;
                }
            }
            Kind::Duplicated => self.send_twice(&request, due).await,
            Kind::HungUp => self.hang_up(request, due).await,
        }
    }

    /// Waits for the customers who come back later.
    pub(super) async fn finish(&self) {
        self.later.close();
        self.later.wait().await;
    }

    pub(super) fn take_tally(&self) -> anyhow::Result<Tally> {
        Ok(std::mem::replace(&mut *self.tally(), Tally::new()?))
    }

    /// Sends until the order is accepted. The latency is the customer's: from the due moment to the
    /// answer that says so, retries included.
    async fn settle(&self, request: &[u8], due: Instant, timed: bool) -> Option<Uuid> {
        let mut backoff = BACKOFF_MIN;
        for _ in 0..TRIES_MAX {
            let reply = self.pool.exchange(request).await;
            if let Ok(Reply {
                status: 200..300,
                order_id: Some(id),
                replayed,
                ..
            }) = reply
            {
                self.accept(id, due, timed.then(|| due.elapsed()));
                if !timed {
                    self.tally().counts.hung_up_found_done += u64::from(replayed);
                }
                return Some(id);
            }
            let wait = match reply {
                Ok(reply) if !reply.is_retryable() => {
                    self.tally().refused(reply.status);
                    return None;
                }
                Ok(reply) => {
                    self.tally().put_off(reply.status);
                    reply.retry_after.unwrap_or(backoff)
                }
                Err(error) => {
                    self.tally().broken(&error);
                    backoff
                }
            };
            tokio::time::sleep(wait.min(BACKOFF_MAX)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
        self.tally().counts.unresolved += 1;
        None
    }

    /// The answer was heard, and the request goes out once more all the same.
    async fn send_again(&self, request: &[u8], id: Uuid) {
        let sent = Instant::now();
        let reply = self.pool.exchange(request).await;
        let mut tally = self.tally();
        tally.counts.retried += 1;
        match reply {
            Ok(reply) if reply.is_retryable() => tally.put_off(reply.status),
            Ok(reply) => {
                tally.replay(sent.elapsed());
                tally.counts.contradicted +=
                    u64::from(!reply.replayed || reply.order_id != Some(id));
            }
            Err(error) => tally.broken(&error),
        }
    }

    /// Two copies at once: at most one may do the work, and both must name the same order.
    async fn send_twice(&self, request: &[u8], due: Instant) {
        let timed = async || (self.pool.exchange(request).await, due.elapsed());
        let (left, right) = tokio::join!(timed(), timed());
        let mut accepted: Vec<(Uuid, bool, Duration)> = Vec::with_capacity(2);
        for (reply, elapsed) in [left, right] {
            match reply {
                Ok(Reply {
                    status: 200..300,
                    order_id: Some(id),
                    replayed,
                    ..
                }) => accepted.push((id, replayed, elapsed)),
                Ok(reply) if reply.is_retryable() => self.tally().put_off(reply.status),
                Ok(reply) => self.tally().refused(reply.status),
                Err(error) => self.tally().broken(&error),
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
                self.settle(request, due, true).await;
            }
        }
    }

    /// The order is fully sent, the answer never read. The customer comes back with the same key.
    async fn hang_up(self: &Arc<Self>, request: Vec<u8>, due: Instant) {
        // Leaving at once, most orders are found undone; leaving later, nearly all are found done.
        let patience = if rand::rng().random_bool(0.5) {
            Duration::ZERO
        } else {
            rand::rng().random_range(Duration::ZERO..HANGUP_PATIENCE_MAX)
        };
        if let Err(error) = self.pool.hang_up(&request, patience).await {
            self.tally().broken(&error);
        }
        self.tally().counts.hung_up += 1;
        let customers = Arc::clone(self);
        self.later.spawn(async move {
            tokio::time::sleep(HANGUP_RETRY_DELAY).await;
            customers.settle(&request, due, false).await;
        });
    }

    fn accept(&self, id: Uuid, due: Instant, latency: Option<Duration>) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.tally().accepted(id, self.clock.unix_us(due), latency);
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        // Counters and a list: nothing a panic elsewhere could leave half changed.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
