//! Fulfilment's rejections: the payment attempt of a rejected order is voided, or its charge is
//! refunded.

use std::collections::HashMap;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::ProviderLimits;
use crate::domain::provider_key::refund_key;
use crate::domain::rejection::{Consequence, reject};
use crate::follow_ups::FollowUps;
use crate::store::attempts::{self, LockedAttempt, RejectionMark};
use crate::store::refunds::NewRefund;

pub struct Rejection {
    pub order_id: Uuid,
    pub attempt: i32,
    pub reason: String,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    /// When fulfilment rejected the order.
    pub requested_at: DateTime<Utc>,
}

/// Applies the rejections in the transaction of `tx`. A repeated rejection finds its attempt rejected
/// and changes nothing, even if the table of processed messages no longer has the first message.
///
/// Returns whose chargers have work now.
pub async fn apply(
    tx: &mut PgConnection,
    rejections: &[Rejection],
    limits: &ProviderLimits,
) -> anyhow::Result<Vec<String>> {
    // The order in which all writers lock attempts.
    let mut rejections: Vec<&Rejection> = rejections.iter().collect();
    rejections.sort_unstable_by_key(|it| (it.order_id, it.attempt));
    let order_ids: Vec<Uuid> = rejections.iter().map(|it| it.order_id).collect();
    let numbers: Vec<i32> = rejections.iter().map(|it| it.attempt).collect();
    let reasons: Vec<&str> = rejections.iter().map(|it| &*it.reason).collect();
    let correlations: Vec<&str> = rejections.iter().map(|it| &*it.correlation_id).collect();
    let mut by_attempt: HashMap<(Uuid, i32), &Rejection> = rejections
        .iter()
        .map(|rejection| ((rejection.order_id, rejection.attempt), *rejection))
        .collect();
    let mut follow_ups = FollowUps::default();
    let voided = attempts::void_missing(tx, &order_ids, &numbers, &reasons, &correlations)
        .await
        .context("voiding missing attempts")?;
    for attempt in voided {
        if let Some(rejection) = by_attempt.remove(&attempt) {
            // The attempt that would name the customer has not arrived.
            rejection.void(String::new(), &mut follow_ups)?;
        }
    }
    let locked = attempts::lock(tx, &order_ids, &numbers)
        .await
        .context("locking attempts")?;
    let mut marks = Vec::with_capacity(locked.len());
    let mut principals = Vec::with_capacity(locked.len());
    for attempt in locked {
        principals.push(attempt.principal.clone());
        if let Some(rejection) = by_attempt.remove(&(attempt.order_id, attempt.attempt)) {
            marks.extend(rejection.decide(attempt, limits, &mut follow_ups)?);
        }
    }
    attempts::mark_rejected(tx, &marks)
        .await
        .context("marking rejected attempts")?;
    follow_ups.write(tx).await?;
    principals.sort_unstable();
    principals.dedup();
    Ok(principals)
}

impl Rejection {
    fn void(&self, customer_id: String, follow_ups: &mut FollowUps) -> anyhow::Result<()> {
        follow_ups.add_voided(
            (self.order_id, self.attempt),
            customer_id,
            self.reason.clone(),
            &self.correlation_id,
            self.traceparent.clone(),
        )
    }

    /// Returns the mark to write to the attempt, and adds the follow-ups.
    fn decide<'a>(
        &'a self,
        attempt: LockedAttempt,
        limits: &ProviderLimits,
        follow_ups: &mut FollowUps,
    ) -> anyhow::Result<Option<RejectionMark<'a>>> {
        // A held attempt may have been sent before the restore, even if this database counts no tries.
        let leased = attempt.tries > 0 || limits.holds(attempt.first_called_at);
        let consequence = reject(attempt.status, leased, attempt.rejected_before);
        match consequence {
            Consequence::Nothing => return Ok(None),
            // A charger cancels the key.
            Consequence::CancelKey => {}
            Consequence::Void | Consequence::Close => {
                self.void(attempt.customer_id, follow_ups)?;
            }
            Consequence::Refund => follow_ups.add_refund(NewRefund {
                charge_id: attempt
                    .charge_id
                    .context("a captured attempt has no charge")?,
                key: refund_key(self.order_id, self.attempt),
                order_id: self.order_id,
                attempt: self.attempt,
                principal: attempt.principal,
                amount: attempt.amount,
                currency: attempt.currency,
                reason: self.reason.clone(),
                correlation_id: self.correlation_id.clone(),
                traceparent: self.traceparent.clone(),
                reference: None,
                requested_at: Some(self.requested_at),
                made_by_hand: None,
            }),
        }
        Ok(Some(RejectionMark {
            order_id: self.order_id,
            attempt: self.attempt,
            reason: &self.reason,
            void: consequence == Consequence::Void,
        }))
    }
}
