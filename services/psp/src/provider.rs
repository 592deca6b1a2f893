//! What happens to a request between the door and the reply, faults included.

mod cancel;
mod decide;
mod record;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::clerks::Desk;
use crate::config::Charging;
use crate::domain::answer::Answer;
use crate::domain::cancellation::Cancellation;
use crate::domain::fault::{Failure, Strike};
use crate::domain::method::Pace;
use crate::domain::request::Request;
use crate::faults::Faults;
use crate::in_flight::{Claim, InFlight};
use crate::provider::decide::Course;
use crate::provider::record::replay;

/// Longest silence of a `hang` towards a caller that never gives up.
pub const HANG_MAX: Duration = Duration::from_secs(600);

/// The provider behind the routes.
pub struct Provider {
    pub faults: Faults,
    pub pool: PgPool,
    settings: Charging,
    desk: Desk,
    in_flight: InFlight,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// What the caller gets.
#[derive(Debug)]
pub enum Reply {
    Answered(Answer),
    Replayed(Answer),
    Failed(Failure),
    /// No answer at all: the connection is to be cut.
    Silence,
}

/// How a fault ends a request.
enum End {
    Failed(Failure),
    Silence,
}

impl Provider {
    pub fn new(settings: Charging, pool: PgPool, desk: Desk) -> Self {
        Self {
            faults: Faults::default(),
            pool,
            settings,
            desk,
            in_flight: InFlight::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Charges or refunds, once per key.
    pub async fn serve(self: &Arc<Self>, request: Request) -> Result<Reply, Error> {
        let provider = Arc::clone(self);
        self.see_through(|gone| async move { provider.carry_out(&request, &gone).await })
            .await
    }

    /// Burns a charge key, or says what was charged under it.
    pub async fn cancel(self: &Arc<Self>, cancellation: Cancellation) -> Result<Reply, Error> {
        let provider = Arc::clone(self);
        self.see_through(|gone| async move { provider.call_off(&cancellation, &gone).await })
            .await
    }

    /// Whether somebody works on the key right now. Who asks before reading the books knows that
    /// what they do not show had not begun when the question came.
    pub fn is_in_flight(&self, key: &str) -> bool {
        self.in_flight.contains(key)
    }

    /// Ends what hangs, and waits for work whose caller has gone.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Works on a task of its own. A caller that hangs up drops this future and not that task: as
    /// at a real provider, a charge that began ends, and its key is released.
    async fn see_through<W>(
        &self,
        work: impl FnOnce(CancellationToken) -> W,
    ) -> Result<Reply, Error>
    where
        W: Future<Output = Result<Reply, Error>> + Send + 'static,
    {
        let caller_gone = CancellationToken::new();
        let _gone_on_drop = caller_gone.clone().drop_guard();
        let task = self.tasks.spawn(work(caller_gone));
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request panicked");
            Err(Error::Internal)
        })
    }

    async fn carry_out(&self, request: &Request, gone: &CancellationToken) -> Result<Reply, Error> {
        let points = request.operation().points();
        let before = self.faults.draw(points.before, &request.reference);
        if let Some(end) = self.suffer(before, gone).await {
            return self.stop(request, end, None).await;
        }
        let claim = self.claim(&request.key)?;
        let course = self.decide(request).await?;
        if let Course::Run(_) = course
            && let Some(end) = self.work(request, gone).await
        {
            return self.stop(request, end, Some(claim)).await;
        }
        // Drawn before the books are written: a 5xx that is to be kept goes into the same commit.
        let after = self.faults.draw(points.after, &request.reference);
        let reply = match course {
            Course::Replay(stored) => replay(request, stored)?,
            Course::Run(decision) => self.settle(request, decision, after).await?,
        };
        drop(claim);
        Ok(self.suffer(after, gone).await.map_or(reply, Reply::from))
    }

    fn claim(&self, key: &Arc<str>) -> Result<Claim<'_>, Error> {
        self.in_flight.claim(key).ok_or(Error::KeyInFlight)
    }

    /// The time between taking the key and moving the money.
    async fn work(&self, request: &Request, gone: &CancellationToken) -> Option<End> {
        if request.pace() == Pace::Slow {
            sleep(self.settings.slow()).await;
        }
        let point = request.operation().points().during;
        let during = self.faults.draw(point, &request.reference);
        self.suffer(during, gone).await
    }

    /// Lives through a fault, or tells how the request ends by it.
    async fn suffer(&self, strike: Option<Strike>, gone: &CancellationToken) -> Option<End> {
        match strike? {
            Strike::Delay(delay) => {
                sleep(delay).await;
                None
            }
            Strike::Hang => {
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = self.closing.cancelled() => {}
                    () = sleep(HANG_MAX) => {}
                }
                Some(End::Silence)
            }
            Strike::Drop => Some(End::Silence),
            Strike::Fail(failure) => Some(End::Failed(failure)),
        }
    }
}

impl From<End> for Reply {
    fn from(end: End) -> Self {
        match end {
            End::Failed(failure) => Self::Failed(failure),
            End::Silence => Self::Silence,
        }
    }
}
