//! The recorder: stores the outcomes of tries, many in one statement.

use std::time::Duration;

use anyhow::Context as _;
use leases::{Done, Record, WhenUnreachable};
use service_kit::{Backoff, crash, database};
use sqlx::PgPool;
use tokio::sync::mpsc;

use crate::domain::next;
use crate::sender::Tried;
use crate::store::receipts::{self, TryResult};

/// The usual [`Recorder::store_wait_max`].
pub const STORE_WAIT_MAX: Duration = Duration::from_secs(15);
/// Longest reason that is stored, in characters. A mail server may send a long text.
const REASON_LEN_MAX: usize = 500;

pub struct Recorder {
    pub pool: PgPool,
    pub backoff: Backoff,
    /// Longest time that one commit may take.
    pub store_wait_max: Duration,
}

impl Recorder {
    /// Records outcomes until the sender has stopped. A lost outcome may cost the customer a second
    /// mail. So while the store is unreachable, the recorder keeps outcomes until their leases end.
    pub async fn run(self, tried: mpsc::Receiver<Done<Tried>>) -> anyhow::Result<()> {
        let policy = WhenUnreachable::KeepWhileLeased;
        let limit = self.store_wait_max;
        leases::Recorder::new(self, policy, limit, tried)
            .run()
            .await
    }

    fn result(&self, tried: &Tried) -> TryResult {
        let mail = &tried.mail;
        TryResult {
            order_id: mail.order_id,
            event_id: mail.event_id,
            mail_type: mail.mail_type.clone(),
            token: mail.token,
            state: next(mail.state(), &tried.outcome),
            error: tried.outcome.reason().map(printable),
            delay: self.backoff.delay(u32::try_from(mail.tries).unwrap_or(1)),
        }
    }
}

impl Record for Recorder {
    type Output = Tried;

    /// Records the outcomes in one statement. Returns the number of outcomes whose lease was current.
    async fn record(&self, batch: &[Done<Tried>]) -> anyhow::Result<usize> {
        let results: Vec<TryResult> = batch.iter().map(|it| self.result(it)).collect();
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        let recorded = receipts::record(&mut connection, &results)
            .await
            .context("recording outcomes")?;
        crash::point("receipt.recorded");
        let recorded = recorded as usize;
        if recorded < results.len() {
            let stale = results.len() - recorded;
            tracing::info!(stale, "stale outcomes discarded");
        }
        Ok(recorded)
    }

    fn describe(&self, tried: &Tried) -> String {
        format!("order {}, {}", tried.mail.order_id, tried.outcome.as_str())
    }
}

/// Removes control characters and limits the length, because the text comes from the mail server.
fn printable(reason: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    reason.chars().map(visible).take(REASON_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_printable_and_bounded() {
        assert_eq!(printable("550 a\0b\r\nc"), "550 a b  c");
        let long = "é".repeat(2 * REASON_LEN_MAX);
        assert_eq!(printable(&long).chars().count(), REASON_LEN_MAX);
    }
}
