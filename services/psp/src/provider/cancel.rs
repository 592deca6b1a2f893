//! Cancels a charge key: either the key was charged, or it never will be.

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{CallerResponse, Provider};
use crate::Error;
use crate::domain::api_response::ApiResponse;
use crate::domain::cancellation::Cancellation;
use crate::domain::charge::Status;
use crate::domain::clock;
use crate::domain::fault::Point;
use crate::store::{cancellations, charges};

/// Cancellations by outcome: `captured`, `pending` or `cancelled`.
const CANCELLATIONS: &str = "psp_cancellations_total";

impl Provider {
    pub(super) async fn process_cancellation(
        &self,
        cancellation: &Cancellation,
        gone: &CancellationToken,
    ) -> Result<CallerResponse, Error> {
        let reference = &cancellation.reference;
        let before = self.faults.apply(Point::BeforeCancel, reference);
        // A 5xx is never stored here: a cancellation has no key to store it under.
        if let Some(interruption) = self.interrupt(before, gone).await {
            return Ok(interruption.into());
        }
        let claim = self.claim(&cancellation.key)?;
        let response = self.cancel_key(&cancellation.key).await?;
        drop(claim);
        let after = self.faults.apply(Point::AfterCancel, reference);
        let interruption = self.interrupt(after, gone).await;
        Ok(interruption.map_or(CallerResponse::New(response), CallerResponse::from))
    }

    /// Reads the books first: a charge stays there after its key has expired. The result is only a
    /// hint. The key's row decides between this cancellation and a charge in another process.
    async fn cancel_key(&self, key: &str) -> Result<ApiResponse, Error> {
        let (now, window) = (clock::now(), self.settings.key_window());
        let mut connection = self.pool.acquire().await?;
        let found = charges::by_key(&mut connection, key).await?;
        for status in [Status::Captured, Status::Pending] {
            if let Some(charge) = found.iter().find(|charge| charge.has_status(status)) {
                metrics::counter!(CANCELLATIONS, "outcome" => status.as_str()).increment(1);
                return Ok(ApiResponse::already_charged(key, charge));
            }
        }
        let failed: Vec<Uuid> = found.iter().map(|charge| charge.id).collect();
        let to_charges = ApiResponse::key_cancelled();
        if cancellations::cancel(&mut connection, key, &failed, &to_charges, now, window).await?
            || cancellations::extend_decline(&mut connection, key, now, window).await?
        {
            metrics::counter!(CANCELLATIONS, "outcome" => "cancelled").increment(1);
            return Ok(ApiResponse::cancelled(key));
        }
        if cancellations::is_refund_key(&mut connection, key, now).await? {
            return Err(Error::KeyReused);
        }
        // Another process has just charged under the key. A retry finds the charge in the books.
        Err(Error::KeyInFlight)
    }
}
