//! A batch of answers, grouped by the updates that they need.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use leases::Done;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::charger::Answered;
use crate::domain::{AttemptStatus, ProviderAnswer, RefundStatus};
use crate::store::payments::{self, AttemptResult, Retry, SettledAttempt};
use crate::store::refunds::{self, RefundResult, SettledRefund};

#[derive(Default)]
pub(super) struct Sorted<'a> {
    attempts: Vec<AttemptResult>,
    refunds: Vec<RefundResult>,
    /// By lease: a batch may contain both a stale and a valid answer about one attempt.
    by_lease: HashMap<(Option<Uuid>, Uuid, i32), &'a Answered>,
}

impl<'a> Sorted<'a> {
    pub(super) fn of(batch: &'a [Done<Answered>], delays: &[Duration]) -> Self {
        let mut sorted = Self::default();
        for (answered, delay) in batch.iter().zip(delays) {
            if answered.leased.call.is_for_attempt() {
                sorted.add_attempt(answered, *delay);
            } else {
                sorted.add_refund(answered, *delay);
            }
        }
        // The order in which the rows are locked. The reconciler has the same.
        let attempts = &mut sorted.attempts;
        attempts.sort_unstable_by_key(|it| (it.order_id, it.attempt, it.token));
        sorted.refunds.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        sorted
    }

    fn add_attempt(&mut self, answered: &'a Answered, delay: Duration) {
        // Only an open attempt is leased, and the update checks the lease token. `Pending` stands for
        // both open states: they lead to the same ones, and an unknown attempt that stays unknown is
        // tried again too.
        let Some(status) = AttemptStatus::Pending.next(&answered.answer) else {
            return log_misfit(answered);
        };
        if !status.is_open() {
            let leased = &answered.leased;
            let lease = (leased.token, leased.order_id, leased.attempt);
            self.by_lease.insert(lease, answered);
        }
        self.attempts.push(attempt_result(answered, status, delay));
    }

    fn add_refund(&mut self, answered: &'a Answered, delay: Duration) {
        let Some(status) = RefundStatus::Pending.next(&answered.answer) else {
            return log_misfit(answered);
        };
        let (refund_id, failure_code) = match &answered.answer {
            ProviderAnswer::Refunded { refund_id } => (Some(refund_id.clone()), None),
            ProviderAnswer::Failed { code } => (None, Some(code.clone())),
            _ => (None, None),
        };
        self.refunds.push(RefundResult {
            key: answered.leased.key(),
            token: answered.leased.token,
            status,
            refund_id,
            failure_code,
            retry: status.is_open().then(|| retry(answered, delay)),
        });
    }

    /// Writes all groups. An empty group costs no round trip.
    pub(super) async fn write(
        &self,
        tx: &mut PgConnection,
    ) -> anyhow::Result<(Vec<SettledAttempt>, Vec<SettledRefund>)> {
        let mut settled = (Vec::new(), Vec::new());
        if !self.attempts.is_empty() {
            let record = payments::record(tx, &self.attempts);
            settled.0 = record.await.context("recording attempts")?;
        }
        if !self.refunds.is_empty() {
            let record = refunds::record(tx, &self.refunds);
            settled.1 = record.await.context("recording refunds")?;
        }
        Ok(settled)
    }

    /// The number of definite answers.
    pub(super) fn definite(&self) -> usize {
        let attempts = self.attempts.iter().filter(|it| it.retry.is_none());
        let refunds = self.refunds.iter().filter(|it| it.retry.is_none());
        attempts.count() + refunds.count()
    }

    pub(super) fn by_lease(&self, settled: &SettledAttempt) -> Option<&'a Answered> {
        let lease = (settled.token, settled.order_id, settled.attempt);
        self.by_lease.get(&lease).copied()
    }
}

fn attempt_result(answered: &Answered, status: AttemptStatus, delay: Duration) -> AttemptResult {
    let mut result = AttemptResult {
        order_id: answered.leased.order_id,
        attempt: answered.leased.attempt,
        token: answered.leased.token,
        status,
        charge_id: None,
        decline_code: None,
        failure_code: None,
        retry: status.is_open().then(|| retry(answered, delay)),
    };
    match &answered.answer {
        ProviderAnswer::Captured { charge_id }
        | ProviderAnswer::RefundedByHand { charge_id, .. } => {
            result.charge_id = Some(charge_id.clone());
        }
        ProviderAnswer::Declined { code } => result.decline_code = Some(code.clone()),
        ProviderAnswer::Failed { code } => result.failure_code = Some(code.clone()),
        _ => {}
    }
    result
}

/// An answer that does not fit its call is a bug in this service. The lease expires, and the call is
/// repeated.
fn log_misfit(answered: &Answered) {
    let (key, answer) = (answered.leased.key(), answered.answer.name());
    tracing::error!(key, answer, "answer does not fit its call, discarded");
}

fn retry(answered: &Answered, delay: Duration) -> Retry {
    let (leased, answer) = (&answered.leased, &answered.answer);
    Retry {
        delay,
        error: answer.open_reason().unwrap_or_default().to_owned(),
        key_state: leased.key_state.after(answer),
        absent: *answer == ProviderAnswer::Absent,
    }
}
