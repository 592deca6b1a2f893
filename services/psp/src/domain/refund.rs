//! A refund as it stands in the books and as callers see it.

use chrono::{DateTime, Utc};
use serde::Serialize;
use service_kit::text_enum;
use uuid::Uuid;

use crate::domain::charge::Charge;
use crate::domain::request::Request;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refund {
    pub id: Uuid,
    pub status: String,
    /// Only for a failed refund.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    pub charge_id: Uuid,
    pub reference: String,
    pub amount: i64,
    pub currency: String,
    pub idempotency_key: String,
    pub created_at: DateTime<Utc>,
}

text_enum! {
    "refund status";
    /// A refund fails only after it was pending.
    pub enum Status {
        Failed = "failed",
        Pending = "pending",
        Refunded = "refunded",
    }
}

impl Refund {
    /// A refund as it is first recorded. It has the currency of its charge.
    pub fn of(
        charge: &Charge,
        request: &Request,
        amount: i64,
        status: Status,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id: Uuid::now_v7(),
            status: status.as_str().to_owned(),
            failure_code: None,
            charge_id: charge.id,
            reference: request.reference.clone(),
            amount,
            currency: charge.currency.clone(),
            idempotency_key: request.key.to_string(),
            created_at: now,
        }
    }
}
