//! A charge as it stands in the books and as callers see it.

use chrono::{DateTime, Utc};
use money::Money;
use serde::Serialize;
use service_kit::text_enum;
use uuid::Uuid;

use crate::domain::request::Request;

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

text_enum! {
    "charge status";
    /// A charge has one status today: a decline leaves no charge.
    pub enum Status {
        Captured = "captured",
    }
}

impl Charge {
    pub fn capture(
        request: &Request,
        amount: Money,
        payment_method: &str,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id: Uuid::now_v7(),
            status: Status::Captured.as_str().to_owned(),
            reference: request.reference.clone(),
            amount: amount.amount(),
            currency: amount.currency().to_string(),
            payment_method: payment_method.to_owned(),
            idempotency_key: request.key.to_string(),
            created_at: now,
        }
    }
}
