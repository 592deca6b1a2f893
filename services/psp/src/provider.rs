//! Processes a request from its arrival to its response, faults included.

mod cancel;
mod execute;
mod plan;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::batch_writer::WriteQueue;
use crate::config::{Charging, KeyCancellation};
use crate::domain::api_response::ApiResponse;
use crate::domain::cancellation::Cancellation;
use crate::domain::clock;
use crate::domain::cutoff::Cutoff;
use crate::domain::fault::{AppliedFault, Failure};
use crate::domain::request::Request;
use crate::domain::test_method::ChargeSpeed;
use crate::faults::Faults;
use crate::in_flight::{Claim, InFlight};
use crate::provider::execute::replay;
use crate::provider::plan::Plan;

/// Longest time that a `hang` fault keeps a connection open.
pub const HANG_MAX: Duration = Duration::from_secs(600);

/// The provider behind the routes.
pub struct Provider {
    pub faults: Faults,
    pub pool: PgPool,
    settings: Charging,
    queue: WriteQueue,
    in_flight: InFlight,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// What the caller gets.
#[derive(Debug)]
pub enum CallerResponse {
    New(ApiResponse),
    Replayed(ApiResponse),
    Failed(Failure),
    /// No response: the connection is dropped.
    Dropped,
}

/// How a fault ends a request.
enum Interruption {
    Failed(Failure),
    Dropped,
}

impl Provider {
    pub fn new(settings: Charging, pool: PgPool, queue: WriteQueue) -> Self {
        Self {
            faults: Faults::default(),
            pool,
            settings,
            queue,
            in_flight: InFlight::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Charges or refunds, once per key.
    pub async fn serve(self: &Arc<Self>, request: Request) -> Result<CallerResponse, Error> {
        let provider = Arc::clone(self);
        self.run_detached(|gone| async move { provider.process(&request, &gone).await })
            .await
    }

    /// Cancels a charge key, or returns the charge that was made under it. An error if this provider
    /// does not cancel keys.
    pub async fn cancel(
        self: &Arc<Self>,
        cancellation: Cancellation,
    ) -> Result<CallerResponse, Error> {
        if self.settings.psp_key_cancellation == KeyCancellation::Off {
            return Err(Error::NotSupported);
        }
        let provider = Arc::clone(self);
        self.run_detached(|gone| async move {
            provider.process_cancellation(&cancellation, &gone).await
        })
        .await
    }

    /// Whether a request is working on the key. Call this before reading the books: a charge that is
    /// neither in flight nor in the books had not begun at the time of the call.
    pub fn is_in_flight(&self, key: &str) -> bool {
        self.in_flight.contains(key)
    }

    /// What lookups and ledgers show now.
    pub fn cutoff(&self) -> Cutoff {
        Cutoff::of(clock::now(), self.settings.lookup_lag())
    }

    /// Ends hanging requests, and waits for requests whose caller has gone.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Runs the work in a separate task. A caller that hangs up drops this future but not the task.
    /// As at a real provider, a charge that has begun is completed, and its key is released.
    async fn run_detached<W>(
        &self,
        work: impl FnOnce(CancellationToken) -> W,
    ) -> Result<CallerResponse, Error>
    where
        W: Future<Output = Result<CallerResponse, Error>> + Send + 'static,
    {
        let caller_gone = CancellationToken::new();
        let _gone_on_drop = caller_gone.clone().drop_guard();
        let task = self.tasks.spawn(work(caller_gone));
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "request panicked");
            Err(Error::Internal)
        })
    }

    async fn process(
        &self,
        request: &Request,
        gone: &CancellationToken,
    ) -> Result<CallerResponse, Error> {
        let points = request.operation().points();
        let before = self.faults.apply(points.before, &request.reference);
        if let Some(interruption) = self.interrupt(before, gone).await {
            return self.end_interrupted(request, interruption, None).await;
        }
        let claim = self.claim(&request.key)?;
        let plan = self.plan(request).await?;
        if let Plan::Run(_) = plan
            && let Some(interruption) = self.delay_work(request, gone).await
        {
            return self
                .end_interrupted(request, interruption, Some(claim))
                .await;
        }
        // Applied before the books are written: a stored 5xx goes into the same commit.
        let after = self.faults.apply(points.after, &request.reference);
        let response = match plan {
            Plan::Replay(stored) => replay(request, stored)?,
            Plan::Run(work) => self.execute(request, work, after.as_ref()).await?,
        };
        drop(claim);
        let interruption = self.interrupt(after, gone).await;
        Ok(interruption.map_or(response, CallerResponse::from))
    }

    fn claim(&self, key: &Arc<str>) -> Result<Claim<'_>, Error> {
        self.in_flight.claim(key).ok_or(Error::KeyInFlight)
    }

    /// The time between claiming the key and moving the money.
    async fn delay_work(
        &self,
        request: &Request,
        gone: &CancellationToken,
    ) -> Option<Interruption> {
        if request.speed() == ChargeSpeed::Slow {
            self.faults.wait(self.settings.slow()).await;
        }
        let point = request.operation().points().during;
        let during = self.faults.apply(point, &request.reference);
        self.interrupt(during, gone).await
    }

    /// Carries out an applied fault. Returns how it ends the request, or `None` if the request
    /// continues.
    async fn interrupt(
        &self,
        fault: Option<AppliedFault>,
        gone: &CancellationToken,
    ) -> Option<Interruption> {
        match fault? {
            AppliedFault::Delay(delay) => {
                self.faults.wait(delay).await;
                None
            }
            AppliedFault::Hang => {
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = self.closing.cancelled() => {}
                    () = sleep(HANG_MAX) => {}
                }
                Some(Interruption::Dropped)
            }
            AppliedFault::Drop => Some(Interruption::Dropped),
            AppliedFault::Fail(failure) => Some(Interruption::Failed(failure)),
        }
    }
}

impl From<Interruption> for CallerResponse {
    fn from(interruption: Interruption) -> Self {
        match interruption {
            Interruption::Failed(failure) => Self::Failed(failure),
            Interruption::Dropped => Self::Dropped,
        }
    }
}
