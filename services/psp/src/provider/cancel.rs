//! Calling a charge off: its key charged, or it never will.

use tokio_util::sync::CancellationToken;

use super::{Provider, Reply};
use crate::Error;
use crate::domain::answer::Answer;
use crate::domain::cancellation::Cancellation;
use crate::domain::clock;
use crate::domain::fault::Point;
use crate::store::{cancellations, charges};

/// Cancellations that were answered, by what they found: `captured` or `cancelled`.
const CANCELLATIONS: &str = "psp_cancellations_total";

impl Provider {
    pub(super) async fn call_off(
        &self,
        cancellation: &Cancellation,
        gone: &CancellationToken,
    ) -> Result<Reply, Error> {
        let reference = &cancellation.reference;
        let before = self.faults.draw(Point::BeforeCancel, reference);
        // A 5xx is never kept here: there is no key under which it could be asked for again.
        if let Some(end) = self.suffer(before, gone).await {
            return Ok(end.into());
        }
        let claim = self.claim(&cancellation.key)?;
        let answer = self.burn(&cancellation.key).await?;
        drop(claim);
        let after = self.faults.draw(Point::AfterCancel, reference);
        let reply = Reply::Answered(answer);
        Ok(self.suffer(after, gone).await.map_or(reply, Reply::from))
    }

    /// The books come first: a charge is true for ever, also when its key has been forgotten. They
    /// are only a hint, though. What decides between this and a charge in another process is the
    /// key's row.
    async fn burn(&self, key: &str) -> Result<Answer, Error> {
        let (now, window) = (clock::now(), self.settings.key_window());
        let mut connection = self.pool.acquire().await?;
        if let Some(charge) = charges::by_key(&mut connection, key).await?.first() {
            metrics::counter!(CANCELLATIONS, "outcome" => "captured").increment(1);
            return Ok(Answer::captured_before(key, charge));
        }
        let refusal = Answer::burnt();
        if cancellations::burn(&mut connection, key, &refusal, now, window).await?
            || cancellations::keep_decline(&mut connection, key, now, window).await?
        {
            metrics::counter!(CANCELLATIONS, "outcome" => "cancelled").increment(1);
            return Ok(Answer::cancelled(key));
        }
        if cancellations::is_of_refund(&mut connection, key, now).await? {
            return Err(Error::KeyReused);
        }
        // Another process has just charged under the key. Asked again, the books will say so.
        Err(Error::KeyInFlight)
    }
}
