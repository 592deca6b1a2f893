//! A charge as it stands in the books and as callers see it.

use chrono::{DateTime, SubsecRound as _, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::domain::request::Request;

/// Digits of a second that Postgres keeps.
const TIMESTAMP_DIGITS: u16 = 6;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Charge {
    pub id: Uuid,
    pub status: String,
    pub reference: String,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub idempotency_key: String,
    pub created_at: DateTime<Utc>,
}

impl Charge {
    pub fn capture(request: &Request, now: DateTime<Utc>) -> Self {
        Self {
            id: Uuid::now_v7(),
            status: "captured".to_owned(),
            reference: request.reference.clone(),
            amount: request.amount.amount(),
            currency: request.amount.currency().to_string(),
            payment_method: request.payment_method.clone(),
            idempotency_key: request.key.to_string(),
            created_at: now,
        }
    }
}

/// The time, as exact as the database can give it back: a charge read later must look the same.
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(TIMESTAMP_DIGITS)
}
