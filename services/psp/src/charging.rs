//! What happens to a charge request between the door and the reply, faults included.

mod record;

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Error;
use crate::charging::record::replay;
use crate::clerks::Desk;
use crate::config::Charging;
use crate::domain::answer::Answer;
use crate::domain::charge;
use crate::domain::fault::{Failure, Point, Strike};
use crate::domain::method::{Method, Pace};
use crate::domain::request::Request;
use crate::faults::Faults;
use crate::in_flight::{Claim, InFlight};
use crate::store::requests::{self, Stored};

/// Longest silence of a `hang` towards a caller that never gives up.
pub const HANG_MAX: Duration = Duration::from_secs(600);

/// The provider behind the routes.
pub struct Provider {
    pub faults: Faults,
    pub pool: PgPool,
    settings: Charging,
    desk: Desk,
    in_flight: InFlight,
    charges: TaskTracker,
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
            charges: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Carries the request out on a task of its own. A caller that hangs up drops this future and
    /// not that task: as at a real provider, a charge that began ends, and its key is released.
    pub async fn serve(self: &Arc<Self>, request: Request) -> Result<Reply, Error> {
        let caller_gone = CancellationToken::new();
        let _gone_on_drop = caller_gone.clone().drop_guard();
        let provider = Arc::clone(self);
        let charge = async move { provider.charge(&request, &caller_gone).await };
        self.charges.spawn(charge).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a charge panicked");
            Err(Error::Internal)
        })
    }

    /// Ends what hangs, and waits for charges whose caller has gone.
    pub async fn close(&self) {
        self.closing.cancel();
        self.charges.close();
        self.charges.wait().await;
    }

    async fn charge(&self, request: &Request, gone: &CancellationToken) -> Result<Reply, Error> {
        let before = self.faults.draw(Point::BeforeCharge, &request.reference);
        if let Some(end) = self.suffer(before, gone).await {
            return self.stop(request, end, None).await;
        }
        let claim = self.claim(request)?;
        let method = Method::of(&request.payment_method);
        let known = self.known_before_work(request, method).await?;
        if known.is_none()
            && let Some(end) = self.work(request, method, gone).await
        {
            return self.stop(request, end, Some(claim)).await;
        }
        // Drawn before the books are written: a 5xx that is to be kept goes into the same commit.
        let after = self.faults.draw(Point::AfterCharge, &request.reference);
        let reply = match known {
            Some(stored) => replay(request, stored)?,
            None => self.settle(request, method.outcome, after).await?,
        };
        drop(claim);
        Ok(self.suffer(after, gone).await.map_or(reply, Reply::from))
    }

    fn claim(&self, request: &Request) -> Result<Claim<'_>, Error> {
        self.in_flight.claim(&request.key).ok_or(Error::KeyInFlight)
    }

    /// A prompt charge finds out in the statement that would charge. Only where time would be spent
    /// or a fault would strike first is it worth a round trip to know a replay beforehand.
    async fn known_before_work(
        &self,
        request: &Request,
        method: Method,
    ) -> Result<Option<Stored>, Error> {
        let at_once = method.pace == Pace::Prompt;
        if at_once
            && !self
                .faults
                .threaten(Point::DuringCharge, &request.reference)
        {
            return Ok(None);
        }
        let mut connection = self.pool.acquire().await?;
        Ok(requests::find(&mut connection, &request.key, charge::now()).await?)
    }

    /// The time between taking the key and charging.
    async fn work(
        &self,
        request: &Request,
        method: Method,
        gone: &CancellationToken,
    ) -> Option<End> {
        if method.pace == Pace::Slow {
            sleep(self.settings.slow()).await;
        }
        let during = self.faults.draw(Point::DuringCharge, &request.reference);
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
