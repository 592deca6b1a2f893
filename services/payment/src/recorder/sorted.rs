//! A batch of answers, grouped by the updates that they need.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use leases::Done;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::charger::Answered;
use crate::domain::{AttemptStatus, Postponement, ProviderAnswer, RefundStatus};
use crate::store::payments::{self, AttemptSettlement, SettledAttempt};
use crate::store::refunds::{self, RefundSettlement, SettledRefund};

/// The error stored with a row if the provider has no entry under its key.
const ABSENT: &str = "the provider has no entry under the key";

#[derive(Default)]
pub(super) struct Sorted<'a> {
    attempts: Vec<AttemptSettlement>,
    refunds: Vec<RefundSettlement>,
    attempts_later: Vec<Postponement<'a>>,
    refunds_later: Vec<Postponement<'a>>,
    /// By lease: a batch may contain both a stale and a valid answer about one attempt.
    by_lease: HashMap<(Uuid, Uuid, i32), &'a Answered>,
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
        sorted
    }

    fn add_attempt(&mut self, answered: &'a Answered, delay: Duration) {
        // Only an open attempt is leased, and the update checks the lease token. `Pending` stands for
        // both open states: they lead to the same ones, and an unknown attempt that stays unknown is
        // postponed too.
        match AttemptStatus::Pending.next(&answered.answer) {
            Some(status) if status.is_open() => {
                self.attempts_later.push(postponement(answered, delay));
            }
            Some(status) => {
                self.attempts.push(attempt_settlement(answered, status));
                let leased = &answered.leased;
                let lease = (leased.token, leased.order_id, leased.attempt);
                self.by_lease.insert(lease, answered);
            }
            None => log_misfit(answered),
        }
    }

    fn add_refund(&mut self, answered: &'a Answered, delay: Duration) {
        match (
            RefundStatus::Pending.next(&answered.answer),
            &answered.answer,
        ) {
            (Some(status), ProviderAnswer::Refunded { refund_id }) => {
                self.refunds.push(RefundSettlement {
                    key: answered.leased.key(),
                    token: answered.leased.token,
                    status,
                    refund_id: refund_id.clone(),
                });
            }
            (Some(_), _) => self.refunds_later.push(postponement(answered, delay)),
            (None, _) => log_misfit(answered),
        }
    }

    /// Writes all groups. An empty group costs no round trip.
    pub(super) async fn write(
        &self,
        tx: &mut PgConnection,
    ) -> anyhow::Result<(Vec<SettledAttempt>, Vec<SettledRefund>)> {
        let mut settled = (Vec::new(), Vec::new());
        if !self.attempts.is_empty() {
            let settle = payments::settle(tx, &self.attempts);
            settled.0 = settle.await.context("settling attempts")?;
        }
        if !self.attempts_later.is_empty() {
            let postpone = payments::postpone(tx, &self.attempts_later);
            postpone.await.context("postponing attempts")?;
        }
        if !self.refunds.is_empty() {
            let settle = refunds::settle(tx, &self.refunds);
            settled.1 = settle.await.context("settling refunds")?;
        }
        if !self.refunds_later.is_empty() {
            let postpone = refunds::postpone(tx, &self.refunds_later);
            postpone.await.context("postponing refunds")?;
        }
        Ok(settled)
    }

    /// The number of definite answers.
    pub(super) fn definite(&self) -> usize {
        self.attempts.len() + self.refunds.len()
    }

    pub(super) fn by_lease(&self, settled: &SettledAttempt) -> Option<&'a Answered> {
        let lease = (settled.token, settled.order_id, settled.attempt);
        self.by_lease.get(&lease).copied()
    }
}

fn attempt_settlement(answered: &Answered, status: AttemptStatus) -> AttemptSettlement {
    let (charge_id, decline_code) = match &answered.answer {
        ProviderAnswer::Captured { charge_id } => (Some(charge_id.clone()), None),
        ProviderAnswer::Declined { code } => (None, Some(code.clone())),
        _ => (None, None),
    };
    AttemptSettlement {
        order_id: answered.leased.order_id,
        attempt: answered.leased.attempt,
        token: answered.leased.token,
        status,
        charge_id,
        decline_code,
    }
}

/// An answer that does not fit its call is a bug in this service. The lease expires, and the call is
/// repeated.
fn log_misfit(answered: &Answered) {
    let (key, answer) = (answered.leased.key(), answered.answer.name());
    tracing::error!(key, answer, "answer does not fit its call, discarded");
}

fn postponement(answered: &Answered, delay: Duration) -> Postponement<'_> {
    let error = match &answered.answer {
        ProviderAnswer::Unknown { reason, .. } => reason,
        _ => ABSENT,
    };
    Postponement {
        leased: &answered.leased,
        delay,
        error,
        absent: answered.answer == ProviderAnswer::Absent,
    }
}
