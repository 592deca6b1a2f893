//! Chargers that a test steps.

use std::sync::Arc;
use std::time::Duration;

use leases::{Done, Settings, Worker};
use payment::charger::{Answered, Charger, LEASE_BATCH_MAX, Queue};
use payment::psp;
use sqlx::PgPool;
use tokio::sync::{Notify, mpsc};

use crate::harness::{EVENTUALLY, eventually};

const PSP_TIMEOUT: Duration = Duration::from_millis(1_500);
/// How long after its first try an attempt may be sent again.
pub(crate) const RESEND_MAX: Duration = Duration::from_secs(3_600);
const IN_FLIGHT_MAX: usize = 64;

/// One charger for each queue, as in the service, and the channel of their answers.
pub(crate) struct Stepper {
    chargers: [Worker<Charger>; 3],
    answers: mpsc::Receiver<Done<Answered>>,
}

impl Stepper {
    pub(crate) fn new(pool: PgPool, psp_url: &str, lease: Duration) -> Self {
        let (sender, answers) = mpsc::channel(IN_FLIGHT_MAX);
        let psp = psp::Client::new(psp_url, PSP_TIMEOUT).unwrap();
        let settings = Settings {
            lease,
            // Only `run` uses it.
            poll: Duration::ZERO,
            in_flight_max: IN_FLIGHT_MAX,
            batch_max: LEASE_BATCH_MAX,
        };
        let chargers = Queue::ALL.map(|queue| {
            let charger = Charger {
                queue,
                pool: pool.clone(),
                psp: psp.clone(),
                resend_max: RESEND_MAX,
            };
            Worker::new(charger, settings, Arc::new(Notify::new()), sender.clone())
        });
        Self { chargers, answers }
    }

    /// One step of each charger: first tries, unknown outcomes, refunds.
    pub(crate) async fn lease(&self) -> usize {
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
            let next = tokio::time::timeout(EVENTUALLY, self.answers.recv()).await;
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
