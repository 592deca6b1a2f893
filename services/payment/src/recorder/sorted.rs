//! A batch of answers, sorted by what they write to the tables.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use leases::Done;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::charger::Answered;
use crate::domain::{AttemptStatus, Postponement, ProviderAnswer};
use crate::store::{payments, refunds};

/// The error stored with a row whose key the provider does not know.
const ABSENT: &str = "the provider has no entry under the key";

#[derive(Default)]
pub(super) struct Sorted<'a> {
    attempts: Vec<payments::AttemptSettlement>,
    refunds: Vec<refunds::RefundSettlement>,
    attempts_later: Vec<Postponement<'a>>,
    refunds_later: Vec<Postponement<'a>>,
    /// By lease: a batch may contain a stale answer about an attempt beside the valid one.
    by_lease: HashMap<(Uuid, Uuid, i32), &'a Answered>,
}

impl<'a> Sorted<'a> {
    pub(super) fn of(batch: &'a [Done<Answered>], delays: &[Duration]) -> Self {
        let mut sorted = Self::default();
        for (answered, delay) in batch.iter().zip(delays) {
            sorted.add(answered, *delay);
        }
        sorted
    }

    fn add(&mut self, answered: &'a Answered, delay: Duration) {
        let leased = &answered.leased;
        let later = |error, absent| Postponement {
            leased,
            delay,
            error,
            absent,
        };
        let (postponed, is_for_attempt) = (self.postponed(answered), leased.call.is_for_attempt());
        match &answered.answer {
            ProviderAnswer::Unknown { reason, .. } => postponed.push(later(reason, false)),
            ProviderAnswer::Absent => postponed.push(later(ABSENT, true)),
            ProviderAnswer::Refunded { refund_id } => {
                self.refunds.push(refunds::RefundSettlement {
                    key: leased.key(),
                    token: leased.token,
                    refund_id: refund_id.clone(),
                })
            }
            answer if is_for_attempt => {
                self.attempts.extend(settlement(answered, answer));
                let lease = (leased.token, leased.order_id, leased.attempt);
                self.by_lease.insert(lease, answered);
            }
            // A call about a refund has no such answer.
            _ => {}
        }
    }

    fn postponed(&mut self, answered: &Answered) -> &mut Vec<Postponement<'a>> {
        if answered.leased.call.is_for_attempt() {
            &mut self.attempts_later
        } else {
            &mut self.refunds_later
        }
    }

    /// Writes to the tables. An empty part costs no round trip.
    pub(super) async fn write(
        &self,
        tx: &mut PgConnection,
    ) -> anyhow::Result<(Vec<payments::SettledAttempt>, Vec<refunds::SettledRefund>)> {
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

    pub(super) fn by_lease(&self, settled: &payments::SettledAttempt) -> Option<&'a Answered> {
        let lease = (settled.token, settled.order_id, settled.attempt);
        self.by_lease.get(&lease).copied()
    }
}

fn settlement(answered: &Answered, answer: &ProviderAnswer) -> Option<payments::AttemptSettlement> {
    // Only an open attempt has a lease, and the update checks the lease token.
    let status = AttemptStatus::Unknown.next(answer)?;
    let (charge_id, decline_code) = match answer {
        ProviderAnswer::Captured { charge_id } => (Some(charge_id.clone()), None),
        ProviderAnswer::Declined { code } => (None, Some(code.clone())),
        _ => (None, None),
    };
    Some(payments::AttemptSettlement {
        order_id: answered.leased.order_id,
        attempt: answered.leased.attempt,
        token: answered.leased.token,
        status,
        charge_id,
        decline_code,
    })
}
