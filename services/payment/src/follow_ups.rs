//! The follow-ups of a settled attempt or refund: events, a refund if the order will not ship, and
//! the response to a direct charge. They are written in the commit that settles the row.

use anyhow::Context as _;
use events::{
    Envelope, Event, Line, Origin, PaymentCaptured, PaymentDeclined, PaymentFailed,
    PaymentRefunded, PaymentVoided,
};
use idempotency::{Key, Scope, StoredResponse, store as keys};
use money::{Currency, Money};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::direct::DIRECT_ROUTE;
use crate::domain::provider_answer::PROVIDER_ERROR;
use crate::domain::provider_key::refund_key;
use crate::domain::{ProviderAnswer, RefundStatus};
use crate::responses;
use crate::store::payments::SettledAttempt;
use crate::store::refunds::{self, NewRefund, SettledRefund};

/// The source of the events of this service.
const SOURCE: &str = "payment";
/// The versions of the payloads.
const PAYLOAD_VERSION: u16 = 2;
/// The reason of a refund that an operator made at the provider before the charge was recorded here.
const BY_HAND: &str = "refunded_by_hand";

/// Collects the rows that a transaction writes in addition to the outcomes.
#[derive(Default)]
pub struct FollowUps {
    events: Vec<Envelope>,
    refunds: Vec<NewRefund>,
    /// Settled direct charges, with the responses to their clients.
    direct: Vec<(Uuid, Completion)>,
}

/// The idempotency key of a direct charge, and the response that completes it.
struct Completion {
    principal_id: String,
    key: Key,
    response: StoredResponse,
}

impl FollowUps {
    /// Adds the follow-ups of an attempt that this answer settled. Events join the trace of the call.
    pub fn add_settled(
        &mut self,
        settled: &SettledAttempt,
        answer: &ProviderAnswer,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        if let (Some(principal_id), Some(key)) = (&settled.principal_id, &settled.request_key) {
            self.add_direct(settled, (principal_id, key), answer, traceparent);
            return Ok(());
        }
        let (order_id, attempt) = (settled.order_id, settled.attempt);
        let correlation_id = &*settled.correlation_id;
        match answer {
            ProviderAnswer::Captured { charge_id } => {
                let event = captured(settled, charge_id)?;
                self.announce(correlation_id, traceparent.clone(), &event)?;
                if let Some(reason) = &settled.rejection_reason {
                    let refund = refund_of(settled, charge_id, reason, traceparent);
                    self.refunds.push(refund);
                }
            }
            ProviderAnswer::RefundedByHand {
                charge_id,
                refund_id,
            } => self.add_refunded_by_hand(settled, charge_id, refund_id, traceparent)?,
            ProviderAnswer::Declined { code } => {
                let event = PaymentDeclined {
                    v: PAYLOAD_VERSION,
                    order_id,
                    attempt,
                    decline_code: code.clone(),
                    customer_id: settled.customer_id.clone(),
                    due: Some(Money::new(settled.amount, settled.currency.parse()?)?),
                };
                self.announce(correlation_id, traceparent.clone(), &event)?;
                self.add_void_if_rejected(settled, traceparent)?;
            }
            ProviderAnswer::Failed { code } => {
                let event = PaymentFailed {
                    v: PAYLOAD_VERSION,
                    order_id,
                    attempt,
                    failure_code: code.clone(),
                    // Nothing is wrong with the payment: only this key cannot be used any more.
                    retry: code == PROVIDER_ERROR,
                    customer_id: settled.customer_id.clone(),
                };
                self.announce(correlation_id, traceparent.clone(), &event)?;
                self.add_void_if_rejected(settled, traceparent)?;
            }
            ProviderAnswer::Cancelled => {
                self.announce(correlation_id, traceparent, &voided(settled))?;
            }
            ProviderAnswer::Refunded { .. }
            | ProviderAnswer::Absent
            | ProviderAnswer::Processing
            | ProviderAnswer::KeySpent { .. }
            | ProviderAnswer::NotAccepted { .. }
            | ProviderAnswer::Unknown { .. } => {}
        }
        Ok(())
    }

    /// A direct charge has no order: its outcome completes the client's key.
    fn add_direct(
        &mut self,
        settled: &SettledAttempt,
        (principal_id, key): (&str, &str),
        answer: &ProviderAnswer,
        traceparent: Option<String>,
    ) {
        let response = responses::for_settled_attempt(settled, answer);
        let completion = response.map(|response| Completion {
            principal_id: principal_id.to_owned(),
            key: Key::from_stored(key.to_owned()),
            response,
        });
        let completion = completion.map(|it| (settled.order_id, it));
        self.direct.extend(completion);
        if let ProviderAnswer::RefundedByHand {
            charge_id,
            refund_id,
        } = answer
        {
            self.refunds.push(NewRefund {
                made_by_hand: Some(refund_id.clone()),
                ..refund_of(settled, charge_id, BY_HAND, traceparent)
            });
        }
    }

    /// The charge is already refunded: fulfilment must not learn of the capture, and the order ends
    /// as refunded.
    fn add_refunded_by_hand(
        &mut self,
        settled: &SettledAttempt,
        charge_id: &str,
        refund_id: &str,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        let reason = BY_HAND;
        let event = PaymentRefunded {
            v: PAYLOAD_VERSION,
            order_id: settled.order_id,
            attempt: settled.attempt,
            charge_id: charge_id.to_owned(),
            refund_id: refund_id.to_owned(),
            amount: settled.amount,
            currency: settled.currency.parse()?,
            reason: reason.to_owned(),
            customer_id: settled.customer_id.clone(),
        };
        self.announce(&settled.correlation_id, traceparent.clone(), &event)?;
        self.refunds.push(NewRefund {
            made_by_hand: Some(refund_id.to_owned()),
            ..refund_of(settled, charge_id, reason, traceparent)
        });
        Ok(())
    }

    /// A rejected attempt that took no money is also voided, so that the order becomes `cancelled`.
    fn add_void_if_rejected(
        &mut self,
        settled: &SettledAttempt,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        match settled.rejection_reason {
            Some(_) => self.announce(&settled.correlation_id, traceparent, &voided(settled)),
            None => Ok(()),
        }
    }

    /// Adds the event of an attempt that took no money and never will.
    pub fn add_voided(
        &mut self,
        (order_id, attempt): (Uuid, i32),
        customer_id: String,
        reason: String,
        correlation_id: &str,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        let event = PaymentVoided {
            v: PAYLOAD_VERSION,
            order_id,
            attempt,
            customer_id,
            reason,
        };
        self.announce(correlation_id, traceparent, &event)
    }

    /// Adds the event of a settled refund. The refund of an orphan charge changes no order, and a failed
    /// one waits for an operator; neither has an event.
    pub fn add_refunded(
        &mut self,
        settled: SettledRefund,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        let is_of_order = settled.key == refund_key(settled.order_id, settled.attempt);
        if !is_of_order || settled.status == RefundStatus::Failed {
            return Ok(());
        }
        let event = PaymentRefunded {
            v: PAYLOAD_VERSION,
            order_id: settled.order_id,
            attempt: settled.attempt,
            charge_id: settled.charge_id,
            refund_id: settled.refund_id.context("a settled refund has no id")?,
            amount: settled.amount,
            currency: settled.currency.parse()?,
            reason: settled.reason,
            customer_id: settled.customer_id,
        };
        self.announce(&settled.correlation_id, traceparent, &event)
    }

    pub fn add_refund(&mut self, refund: NewRefund) {
        self.refunds.push(refund);
    }

    /// Writes everything in the transaction of `connection`. Returns the number of new refunds.
    pub async fn write(&self, connection: &mut PgConnection) -> anyhow::Result<u64> {
        let mut opened = 0;
        if !self.refunds.is_empty() {
            opened = refunds::open(connection, &self.refunds)
                .await
                .context("opening refunds")?;
        }
        for (_, completion) in &self.direct {
            let scope = Scope {
                principal_id: &completion.principal_id,
                route: DIRECT_ROUTE,
                key: &completion.key,
            };
            keys::complete(connection, scope, &completion.response)
                .await
                .context("completing a key")?;
        }
        outbox::enqueue(connection, &self.events)
            .await
            .context("writing events")?;
        Ok(opened)
    }

    /// The principals of the new refunds.
    pub fn refund_principals(&self) -> impl Iterator<Item = &str> {
        self.refunds.iter().map(|refund| &*refund.principal)
    }

    /// The ids of the settled direct charges.
    pub fn direct(&self) -> impl Iterator<Item = Uuid> {
        self.direct.iter().map(|(id, _)| *id)
    }

    fn announce<E: Event>(
        &mut self,
        correlation_id: &str,
        traceparent: Option<String>,
        event: &E,
    ) -> anyhow::Result<()> {
        let origin = Origin {
            source: SOURCE,
            correlation_id,
            traceparent,
        };
        self.events.push(Envelope::seal(origin, event)?);
        Ok(())
    }
}

fn refund_of(
    settled: &SettledAttempt,
    charge_id: &str,
    reason: &str,
    traceparent: Option<String>,
) -> NewRefund {
    NewRefund {
        charge_id: charge_id.to_owned(),
        key: refund_key(settled.order_id, settled.attempt),
        order_id: settled.order_id,
        attempt: settled.attempt,
        principal: settled.principal.clone(),
        amount: settled.amount,
        currency: settled.currency.clone(),
        reason: reason.to_owned(),
        correlation_id: settled.correlation_id.clone(),
        traceparent,
        reference: None,
        requested_at: None,
        made_by_hand: None,
    }
}

fn voided(settled: &SettledAttempt) -> PaymentVoided {
    PaymentVoided {
        v: PAYLOAD_VERSION,
        order_id: settled.order_id,
        attempt: settled.attempt,
        customer_id: settled.customer_id.clone(),
        reason: settled.rejection_reason.clone().unwrap_or_default(),
    }
}

fn captured(settled: &SettledAttempt, charge_id: &str) -> anyhow::Result<PaymentCaptured> {
    let lines: Vec<Line> = serde_json::from_value(settled.lines.clone())?;
    Ok(PaymentCaptured {
        v: PAYLOAD_VERSION,
        order_id: settled.order_id,
        attempt: settled.attempt,
        charge_id: charge_id.to_owned(),
        amount: settled.amount,
        currency: settled.currency.parse::<Currency>()?,
        lines,
        customer_id: settled.customer_id.clone(),
    })
}
