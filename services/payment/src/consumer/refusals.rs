//! Fulfilment's refusals: attempts that are to end without money.

use std::collections::HashMap;

use anyhow::Context as _;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{Consequence, Status, refund_key, refuse};
use crate::outcome::Aftermath;
use crate::store::attempts::{self, Note, Refused};
use crate::store::refunds::NewRefund;

pub struct Refusal {
    pub order_id: Uuid,
    pub attempt: i32,
    pub reason: String,
    pub correlation_id: String,
    pub traceparent: Option<String>,
}

/// Applies the refusals in the transaction that `tx` is in. A second one of the same attempt, whether
/// the ledger still knows it or not, finds it refused and changes nothing.
pub async fn apply(tx: &mut PgConnection, refusals: &[Refusal]) -> anyhow::Result<()> {
    let order_ids: Vec<Uuid> = refusals.iter().map(|it| it.order_id).collect();
    let numbers: Vec<i32> = refusals.iter().map(|it| it.attempt).collect();
    let reasons: Vec<&str> = refusals.iter().map(|it| &*it.reason).collect();
    let correlations: Vec<&str> = refusals.iter().map(|it| &*it.correlation_id).collect();
    let mut by_attempt: HashMap<(Uuid, i32), &Refusal> = refusals
        .iter()
        .map(|refusal| ((refusal.order_id, refusal.attempt), refusal))
        .collect();
    let mut aftermath = Aftermath::default();
    let forestalled = attempts::forestall(tx, &order_ids, &numbers, &reasons, &correlations)
        .await
        .context("forestalling attempts")?;
    for attempt in forestalled {
        if let Some(refusal) = by_attempt.remove(&attempt) {
            refusal.void(&mut aftermath)?;
        }
    }
    let locked = attempts::lock(tx, &order_ids, &numbers)
        .await
        .context("locking attempts")?;
    let mut notes = Vec::with_capacity(locked.len());
    for refused in locked {
        let attempt = (refused.order_id, refused.attempt);
        if let Some(refusal) = by_attempt.remove(&attempt) {
            notes.extend(refusal.decide(refused, &mut aftermath)?);
        }
    }
    attempts::note_refusals(tx, &notes)
        .await
        .context("noting refusals")?;
    aftermath.write(tx).await?;
    Ok(())
}

impl Refusal {
    fn void(&self, aftermath: &mut Aftermath) -> anyhow::Result<()> {
        let attempt = (self.order_id, self.attempt);
        aftermath.add_voided(attempt, &self.correlation_id, self.traceparent.clone())
    }

    /// What is to be written on the attempt; what follows from it goes into the aftermath.
    fn decide<'a>(
        &'a self,
        refused: Refused,
        aftermath: &mut Aftermath,
    ) -> anyhow::Result<Option<Note<'a>>> {
        let status: Status = refused.status.parse()?;
        let consequence = refuse(status, refused.tries > 0, refused.refused_before);
        match consequence {
            Consequence::Nothing => return Ok(None),
            Consequence::Settle => {}
            Consequence::Void | Consequence::Close => self.void(aftermath)?,
            Consequence::Refund => aftermath.add_refund(NewRefund {
                charge_id: refused
                    .charge_id
                    .context("a captured attempt has a charge")?,
                key: refund_key(self.order_id, self.attempt),
                order_id: self.order_id,
                attempt: self.attempt,
                amount: refused.amount,
                currency: refused.currency,
                reason: self.reason.clone(),
                correlation_id: self.correlation_id.clone(),
                traceparent: self.traceparent.clone(),
            }),
        }
        Ok(Some(Note {
            order_id: self.order_id,
            attempt: self.attempt,
            reason: &self.reason,
            void: consequence == Consequence::Void,
        }))
    }
}
