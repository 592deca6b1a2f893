//! Entries turned on their side: one array per column is one parameter, whatever the batch's size,
//! so one prepared statement serves all.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::{Effect, Entry};

#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) key: Vec<&'a str>,
    pub(super) operation: Vec<&'static str>,
    pub(super) fingerprint: Vec<&'a [u8]>,
    pub(super) status: Vec<i16>,
    pub(super) body: Vec<&'a str>,
    pub(super) created_at: Vec<DateTime<Utc>>,
    pub(super) expires_at: Vec<DateTime<Utc>>,
    /// The charge that is made.
    pub(super) charge_id: Vec<Option<Uuid>>,
    /// The refund that is made.
    pub(super) refund_id: Vec<Option<Uuid>>,
    /// The charge that is given back.
    pub(super) refunded_id: Vec<Option<Uuid>>,
    pub(super) reference: Vec<Option<&'a str>>,
    pub(super) amount: Vec<Option<i64>>,
    pub(super) currency: Vec<Option<&'a str>>,
    pub(super) payment_method: Vec<Option<&'a str>>,
}

/// What an effect puts into the columns that only money needs.
#[derive(Default)]
struct Moved<'a> {
    charge_id: Option<Uuid>,
    refund_id: Option<Uuid>,
    refunded_id: Option<Uuid>,
    reference: Option<&'a str>,
    amount: Option<i64>,
    currency: Option<&'a str>,
    payment_method: Option<&'a str>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(entries: &'a [Entry], window: TimeDelta) -> Self {
        let mut columns = Self::default();
        for entry in entries {
            columns.key.push(&entry.key);
            columns.operation.push(entry.operation.name());
            columns.fingerprint.push(&entry.fingerprint);
            let status = i16::try_from(entry.answer.status).unwrap_or(i16::MAX);
            columns.status.push(status);
            columns.body.push(&entry.answer.body);
            columns.created_at.push(entry.created_at);
            columns.expires_at.push(entry.created_at + window);
            columns.push_moved(Moved::by(&entry.effect));
        }
        columns
    }

    fn push_moved(&mut self, moved: Moved<'a>) {
        self.charge_id.push(moved.charge_id);
        self.refund_id.push(moved.refund_id);
        self.refunded_id.push(moved.refunded_id);
        self.reference.push(moved.reference);
        self.amount.push(moved.amount);
        self.currency.push(moved.currency);
        self.payment_method.push(moved.payment_method);
    }
}

impl<'a> Moved<'a> {
    fn by(effect: &'a Effect) -> Self {
        match effect {
            Effect::Charge(charge) => Self {
                charge_id: Some(charge.id),
                reference: Some(&charge.reference),
                amount: Some(charge.amount),
                currency: Some(&charge.currency),
                payment_method: Some(&charge.payment_method),
                ..Self::default()
            },
            Effect::Refund(refund) => Self {
                refund_id: Some(refund.id),
                refunded_id: Some(refund.charge_id),
                reference: Some(&refund.reference),
                amount: Some(refund.amount),
                currency: Some(&refund.currency),
                ..Self::default()
            },
            Effect::Nothing => Self::default(),
        }
    }
}
