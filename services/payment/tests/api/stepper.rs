//! Chargers that a test steps.

use std::sync::Arc;
use std::time::Duration;

use leases::{Clock, Done, Settings, Worker};
use payment::charger::{Answered, Charger, ChargerQueues, LEASE_BATCH_MAX, Queue};
use payment::domain::ProviderLimits;
use payment::psp;
use payment::queue_keeper::QueueKeeper;
use service_kit::Pressure;
use sqlx::PgPool;
use testkit::polling::WAIT_MAX;
use tokio::sync::{Mutex, mpsc};

use crate::harness::eventually;

/// Below the lease of these tests, and long enough for a busy machine.
const PSP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long after its first try an attempt may be sent again.
pub(crate) const RESEND_MAX: Duration = Duration::from_secs(3_600);
/// The facts about the provider that chargers get, unless a test sets others.
pub(crate) const LIMITS: ProviderLimits = ProviderLimits {
    resend_max: RESEND_MAX,
    absence_age: Duration::ZERO,
    can_cancel: true,
    hold_before: None,
};
/// One principal gets half of them.
const IN_FLIGHT_MAX: usize = 256;

/// One charger for each queue, as in the service, and the channel of their answers.
pub(crate) struct Stepper {
    chargers: [Worker<Charger>; 3],
    queues: Arc<ChargerQueues>,
    keeper: Mutex<QueueKeeper>,
    answers: mpsc::Receiver<Done<Answered>>,
}

impl Stepper {
    pub(crate) fn new(pool: PgPool, psp_url: &str, lease: Duration) -> Self {
        Self::with_clock(pool, psp_url, lease, Clock::default())
    }

    pub(crate) fn with_clock(pool: PgPool, psp_url: &str, lease: Duration, clock: Clock) -> Self {
        Self::with(pool, psp_url, lease, clock, LIMITS)
    }

    /// Chargers that give up on a call after this time.
    pub(crate) fn with_timeout(
        pool: PgPool,
        psp_url: &str,
        lease: Duration,
        timeout: Duration,
    ) -> Self {
        let client = psp::Client::new(psp_url, timeout).unwrap();
        Self::with_client(pool, client, lease, Clock::default(), LIMITS)
    }

    pub(crate) fn with(
        pool: PgPool,
        psp_url: &str,
        lease: Duration,
        clock: Clock,
        limits: ProviderLimits,
    ) -> Self {
        let client = psp::Client::new(psp_url, PSP_TIMEOUT).unwrap();
        Self::with_client(pool, client, lease, clock, limits)
    }

    fn with_client(
        pool: PgPool,
        client: psp::Client,
        lease: Duration,
        clock: Clock,
        limits: ProviderLimits,
    ) -> Self {
        let (sender, answers) = mpsc::channel(IN_FLIGHT_MAX);
        let provider = Arc::new(client);
        let settings = Settings {
            lease,
            // Only `run` uses it.
            poll: Duration::ZERO,
            in_flight_max: IN_FLIGHT_MAX,
            batch_max: LEASE_BATCH_MAX,
            store_wait_max: leases::STORE_WAIT_MAX,
        };
        // Every step looks into every queue.
        let queues = Arc::new(ChargerQueues::new(Duration::ZERO));
        let chargers = Queue::ALL.map(|queue| {
            let charger = Charger {
                queue,
                queues: queues.clone(),
                pool: pool.clone(),
                provider: provider.clone(),
                limits,
            };
            let worker =
                Worker::shared(charger, settings, queues.of(queue).clone(), sender.clone());
            worker.with_clock(clock.clone())
        });
        Self {
            chargers,
            keeper: Mutex::new(QueueKeeper::new(pool, queues.clone(), Pressure::default())),
            queues,
            answers,
        }
    }

    /// One step of the queue keeper, then one of each charger: first tries, unknown outcomes, refunds.
    pub(crate) async fn lease(&self) -> usize {
        self.keep_queues(false).await;
        self.lease_only().await
    }

    pub(crate) async fn keep_queues(&self, is_full: bool) {
        self.keeper.lock().await.step(is_full).await.unwrap();
    }

    /// Makes the chargers look into the queues of a principal, whether or not the queue keeper knows it.
    pub(crate) fn wake(&self, principal: &str) {
        for queue in Queue::ALL {
            self.queues.of(queue).wake(principal);
        }
    }

    pub(crate) async fn lease_only(&self) -> usize {
        let mut leased = 0;
        for charger in &self.chargers {
            leased += charger.step().await.unwrap();
        }
        leased
    }

    /// Runs one step, and returns the answers about everything it leased.
    pub(crate) async fn call(&mut self) -> Vec<Done<Answered>> {
        let leased = self.lease().await;
        self.answers(leased).await
    }

    pub(crate) async fn answers(&mut self, count: usize) -> Vec<Done<Answered>> {
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            let next = tokio::time::timeout(WAIT_MAX, self.answers.recv()).await;
            answers.push(next.expect("an answer is missing").unwrap());
        }
        answers
    }

    /// Waits until the channel has this many answers.
    pub(crate) async fn all_answered(&self, count: usize) {
        eventually("all calls are answered", async || {
            self.answers.len() == count
        })
        .await;
    }

    /// The channel of the answers. The chargers stop, so no more answers follow.
    pub(crate) fn into_answers(self) -> mpsc::Receiver<Done<Answered>> {
        self.answers
    }
}
