//! A charger that is stepped by hand.

use std::sync::Arc;
use std::time::Duration;

use payment::charger::{Answered, Charger, Work};
use payment::psp;
use sqlx::PgPool;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::harness::{EVENTUALLY, eventually};

const PSP_TIMEOUT: Duration = Duration::from_millis(1_500);
/// How long after its first try an attempt may be sent again.
pub(crate) const RESEND_MAX: Duration = Duration::from_secs(3_600);
const IN_FLIGHT_MAX: usize = 64;

/// A charger that is stepped by hand, and its answers.
pub(crate) struct Stepper {
    charger: Charger,
    /// As in the service, each charger has its own.
    slots: [Arc<Semaphore>; 3],
    answers: mpsc::Receiver<Answered>,
}

impl Stepper {
    pub(crate) fn new(pool: PgPool, psp_url: &str, lease: Duration) -> Self {
        let (sender, answers) = mpsc::channel(IN_FLIGHT_MAX);
        let charger = Charger {
            work: Work::Fresh,
            pool,
            psp: psp::Client::new(psp_url, PSP_TIMEOUT).unwrap(),
            lease,
            resend_max: RESEND_MAX,
            // Only its `run` would use these.
            poll: Duration::ZERO,
            in_flight_max: IN_FLIGHT_MAX,
            due: Arc::new(Notify::new()),
            answers: sender,
        };
        Self {
            charger,
            slots: [(); 3].map(|()| Arc::new(Semaphore::new(IN_FLIGHT_MAX))),
            answers,
        }
    }

    /// One step of each charger: first tries, unknown outcomes, refunds.
    pub(crate) async fn lease(&self) -> usize {
        let mut leased = 0;
        for (work, slots) in Work::ALL.into_iter().zip(&self.slots) {
            let charger = Charger {
                work,
                ..self.charger.clone()
            };
            leased += charger.lease_and_call(slots).await.unwrap();
        }
        leased
    }

    /// One step, and the answers to all that it leased.
    pub(crate) async fn call(&mut self) -> Vec<Answered> {
        let leased = self.lease().await;
        self.answers(leased).await
    }

    pub(crate) async fn answers(&mut self, count: usize) -> Vec<Answered> {
        let mut answers = Vec::with_capacity(count);
        while answers.len() < count {
            let next = tokio::time::timeout(EVENTUALLY, self.answers.recv()).await;
            answers.push(next.expect("an answer is missing").unwrap());
        }
        answers
    }

    /// Waits until so many answers lie in the channel.
    pub(crate) async fn all_answered(&self, count: usize) {
        eventually("all calls are answered", async || {
            self.answers.len() == count
        })
        .await;
    }

    /// The channel with the answers; no more will come.
    pub(crate) fn into_answers(self) -> mpsc::Receiver<Answered> {
        self.answers
    }
}
