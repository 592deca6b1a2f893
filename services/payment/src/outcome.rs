//! What follows from an attempt or a refund that was settled, in the commit that settles it: events,
//! a refund for what will not ship, the answer to whoever asked for a direct charge.

use anyhow::Context as _;
use events::{
    Envelope, Event, Line, Origin, PaymentCaptured, PaymentDeclined, PaymentRefunded, PaymentVoided,
};
use idempotency::{Key, Scope, store as keys};
use money::Currency;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::{Answer, refund_key};
use crate::routes::view;
use crate::store::payments::Settled;
use crate::store::refunds::{self, NewRefund};

/// The name under which this service announces events.
const SOURCE: &str = "payment";
/// The versions of the payloads.
const CAPTURED_VERSION: u16 = 2;
const PAYLOAD_VERSION: u16 = 1;

/// The scope of keys of direct charges.
pub const DIRECT_ROUTE: &str = "POST /payments";

/// Collects what a transaction has to write besides the outcomes themselves.
#[derive(Default)]
pub struct Aftermath {
    events: Vec<Envelope>,
    refunds: Vec<NewRefund>,
    /// Direct charges whose callers wait, with their answers.
    direct: Vec<(Uuid, Completion)>,
}

struct Completion {
    principal_id: String,
    key: Key,
    answer: idempotency::StoredResponse,
}

impl Aftermath {
    /// Of an attempt that was settled by this answer, in the trace of its call.
    pub fn add_settled(
        &mut self,
        settled: &Settled,
        answer: &Answer,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        if let (Some(principal_id), Some(key)) = (&settled.principal_id, &settled.request_key) {
            let completion = view::of_settled(settled, answer).map(|answer| Completion {
                principal_id: principal_id.clone(),
                key: Key::from_stored(key.clone()),
                answer,
            });
            let completion = completion.map(|it| (settled.order_id, it));
            self.direct.extend(completion);
            return Ok(());
        }
        let (order_id, attempt) = (settled.order_id, settled.attempt);
        let correlation_id = &*settled.correlation_id;
        match answer {
            Answer::Captured { charge_id } => {
                let event = captured(settled, charge_id)?;
                self.announce(correlation_id, traceparent.clone(), &event)?;
                if let Some(reason) = &settled.refusal {
                    self.refunds.push(NewRefund {
                        charge_id: charge_id.clone(),
                        key: refund_key(order_id, attempt),
                        order_id,
                        attempt,
                        amount: settled.amount,
                        currency: settled.currency.clone(),
                        reason: reason.clone(),
                        correlation_id: settled.correlation_id.clone(),
                        traceparent,
                    });
                }
            }
            Answer::Declined { code } => {
                let event = PaymentDeclined {
                    v: PAYLOAD_VERSION,
                    order_id,
                    attempt,
                    decline_code: code.clone(),
                };
                self.announce(correlation_id, traceparent.clone(), &event)?;
                if settled.refusal.is_some() {
                    self.add_voided((order_id, attempt), correlation_id, traceparent)?;
                }
            }
            Answer::Cancelled => {
                self.add_voided((order_id, attempt), correlation_id, traceparent)?;
            }
            Answer::Absent | Answer::Refunded { .. } | Answer::Unknown { .. } => {}
        }
        Ok(())
    }

    /// Of an attempt that took no money and never will.
    pub fn add_voided(
        &mut self,
        (order_id, attempt): (Uuid, i32),
        correlation_id: &str,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        let event = PaymentVoided {
            v: PAYLOAD_VERSION,
            order_id,
            attempt,
        };
        self.announce(correlation_id, traceparent, &event)
    }

    /// Of a refund that was settled. One of a charge that no attempt owned changes no order.
    pub fn add_refunded(
        &mut self,
        settled: refunds::Settled,
        traceparent: Option<String>,
    ) -> anyhow::Result<()> {
        if settled.key != refund_key(settled.order_id, settled.attempt) {
            return Ok(());
        }
        let event = PaymentRefunded {
            v: PAYLOAD_VERSION,
            order_id: settled.order_id,
            attempt: settled.attempt,
            charge_id: settled.charge_id,
            refund_id: settled.refund_id,
            amount: settled.amount,
            currency: settled.currency.parse()?,
            reason: settled.reason,
        };
        self.announce(&settled.correlation_id, traceparent, &event)
    }

    pub fn add_refund(&mut self, refund: NewRefund) {
        self.refunds.push(refund);
    }

    /// Writes it all, in the transaction that `connection` is in. Returns how many refunds are new.
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
            keys::complete(connection, scope, &completion.answer)
                .await
                .context("completing a key")?;
        }
        outbox::enqueue(connection, &self.events)
            .await
            .context("writing events")?;
        Ok(opened)
    }

    /// Direct charges that are settled by this.
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

fn captured(settled: &Settled, charge_id: &str) -> anyhow::Result<PaymentCaptured> {
    let lines: Vec<Line> = serde_json::from_value(settled.lines.clone())?;
    Ok(PaymentCaptured {
        v: CAPTURED_VERSION,
        order_id: settled.order_id,
        attempt: settled.attempt,
        charge_id: charge_id.to_owned(),
        amount: settled.amount,
        currency: settled.currency.parse::<Currency>()?,
        lines,
        customer_id: settled.customer_id.clone(),
    })
}
