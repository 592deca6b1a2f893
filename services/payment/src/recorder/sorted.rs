//! A batch of answers, sorted into what the tables are told.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use leases::Done;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::charger::Answered;
use crate::domain::{Answer, Status, next};
use crate::store::lease::Postponement;
use crate::store::{payments, refunds};

/// Why an attempt is due again whose charge the provider does not have.
const ABSENT: &str = "the provider has no such charge";

#[derive(Default)]
pub(super) struct Sorted<'a> {
    attempts: Vec<payments::Settlement>,
    refunds: Vec<refunds::Settlement>,
    attempts_later: Vec<Postponement<'a>>,
    refunds_later: Vec<Postponement<'a>>,
    /// By lease: a batch may hold an overdue answer to an attempt besides the one that counts.
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
        let (postponed, is_payment) = (self.postponed(answered), leased.errand.is_payment());
        match &answered.answer {
            Answer::Unknown { reason, .. } => postponed.push(later(reason, false)),
            Answer::Absent => postponed.push(later(ABSENT, true)),
            Answer::Refunded { refund_id } => self.refunds.push(refunds::Settlement {
                key: leased.key(),
                token: leased.token,
                refund_id: refund_id.clone(),
            }),
            answer if is_payment => {
                self.attempts.extend(settlement(answered, answer));
                let lease = (leased.token, leased.order_id, leased.attempt);
                self.by_lease.insert(lease, answered);
            }
            // A refund's errand is never answered so.
            _ => {}
        }
    }

    fn postponed(&mut self, answered: &Answered) -> &mut Vec<Postponement<'a>> {
        if answered.leased.errand.is_payment() {
            &mut self.attempts_later
        } else {
            &mut self.refunds_later
        }
    }

    /// Tells the tables; what has nothing to say costs no round trip.
    pub(super) async fn write(
        &self,
        tx: &mut PgConnection,
    ) -> anyhow::Result<(Vec<payments::Settled>, Vec<refunds::Settled>)> {
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

    /// How many answers were definite.
    pub(super) fn definite(&self) -> usize {
        self.attempts.len() + self.refunds.len()
    }

    pub(super) fn by_lease(&self, settled: &payments::Settled) -> Option<&'a Answered> {
        let lease = (settled.token, settled.order_id, settled.attempt);
        self.by_lease.get(&lease).copied()
    }
}

fn settlement(answered: &Answered, answer: &Answer) -> Option<payments::Settlement> {
    // Only an open attempt has a lease, and the update asks for the lease again.
    let status = next(Status::Unknown, answer)?;
    let (charge_id, decline_code) = match answer {
        Answer::Captured { charge_id } => (Some(charge_id.clone()), None),
        Answer::Declined { code } => (None, Some(code.clone())),
        _ => (None, None),
    };
    Some(payments::Settlement {
        order_id: answered.leased.order_id,
        attempt: answered.leased.attempt,
        token: answered.leased.token,
        status: status.as_str(),
        charge_id,
        decline_code,
    })
}
