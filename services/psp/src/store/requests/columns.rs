//! A batch of requests as one array per column. Each array is one parameter, so one prepared
//! statement serves every batch size.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::{Effect, NewRequest};
use crate::domain::settlement::Settlement;

#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) key: Vec<&'a str>,
    pub(super) operation: Vec<&'static str>,
    pub(super) fingerprint: Vec<&'a [u8]>,
    pub(super) status: Vec<i16>,
    pub(super) body: Vec<&'a str>,
    pub(super) created_at: Vec<DateTime<Utc>>,
    pub(super) expires_at: Vec<DateTime<Utc>>,
    /// The new charge.
    pub(super) charge_id: Vec<Option<Uuid>>,
    /// The new refund.
    pub(super) refund_id: Vec<Option<Uuid>>,
    /// The charge that the new refund refunds.
    pub(super) refunded_id: Vec<Option<Uuid>>,
    pub(super) reference: Vec<Option<&'a str>>,
    pub(super) amount: Vec<Option<i64>>,
    pub(super) currency: Vec<Option<&'a str>>,
    pub(super) payment_method: Vec<Option<&'a str>>,
    /// The status of the new charge or refund.
    pub(super) effect_status: Vec<Option<&'a str>>,
    pub(super) outcome: Vec<Option<&'static str>>,
    pub(super) failure_code: Vec<Option<&'static str>>,
    pub(super) settles_at: Vec<Option<DateTime<Utc>>>,
}

/// The columns that only a request with an effect fills.
#[derive(Default)]
struct EffectColumns<'a> {
    charge_id: Option<Uuid>,
    refund_id: Option<Uuid>,
    refunded_id: Option<Uuid>,
    reference: Option<&'a str>,
    amount: Option<i64>,
    currency: Option<&'a str>,
    payment_method: Option<&'a str>,
    status: Option<&'a str>,
    settlement: Option<Settlement>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(requests: &'a [NewRequest], window: TimeDelta) -> Self {
        let mut columns = Self::default();
        for request in requests {
            columns.key.push(&request.key);
            columns.operation.push(request.operation.key_use().as_str());
            columns.fingerprint.push(&request.fingerprint);
            let status = i16::try_from(request.response.status).unwrap_or(i16::MAX);
            columns.status.push(status);
            columns.body.push(&request.response.body);
            columns.created_at.push(request.created_at);
            columns.expires_at.push(request.created_at + window);
            columns.push_effect(EffectColumns::of(&request.effect));
        }
        columns
    }

    fn push_effect(&mut self, effect: EffectColumns<'a>) {
        self.charge_id.push(effect.charge_id);
        self.refund_id.push(effect.refund_id);
        self.refunded_id.push(effect.refunded_id);
        self.reference.push(effect.reference);
        self.amount.push(effect.amount);
        self.currency.push(effect.currency);
        self.payment_method.push(effect.payment_method);
        self.effect_status.push(effect.status);
        let settlement = effect.settlement;
        self.outcome.push(settlement.map(|it| it.outcome));
        self.failure_code
            .push(settlement.and_then(|it| it.failure_code));
        self.settles_at.push(settlement.map(|it| it.settles_at));
    }
}

impl<'a> EffectColumns<'a> {
    fn of(effect: &'a Effect) -> Self {
        match effect {
            Effect::Charge(charge, settlement) => Self {
                charge_id: Some(charge.id),
                reference: Some(&charge.reference),
                amount: Some(charge.amount),
                currency: Some(&charge.currency),
                payment_method: Some(&charge.payment_method),
                status: Some(&charge.status),
                settlement: *settlement,
                ..Self::default()
            },
            Effect::Refund(refund, settlement) => Self {
                refund_id: Some(refund.id),
                refunded_id: Some(refund.charge_id),
                reference: Some(&refund.reference),
                amount: Some(refund.amount),
                currency: Some(&refund.currency),
                status: Some(&refund.status),
                settlement: *settlement,
                ..Self::default()
            },
            Effect::Nothing => Self::default(),
        }
    }
}
