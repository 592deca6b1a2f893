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
    /// Only for a failed charge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    pub reference: String,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub idempotency_key: String,
    pub created_at: DateTime<Utc>,
}

text_enum! {
    "charge status";
    /// A decline leaves no charge. A charge fails only after it was pending.
    pub enum Status {
        Captured = "captured",
        Failed = "failed",
        Pending = "pending",
    }
}

impl Charge {
    /// A charge as it is first recorded.
    pub fn of(
        request: &Request,
        amount: Money,
        payment_method: &str,
        status: Status,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            id: Uuid::now_v7(),
            status: status.as_str().to_owned(),
            failure_code: None,
            reference: request.reference.clone(),
            amount: amount.amount(),
            currency: amount.currency().to_string(),
            payment_method: payment_method.to_owned(),
            idempotency_key: request.key.to_string(),
            created_at: now,
        }
    }

    pub fn has_status(&self, status: Status) -> bool {
        self.status == status.as_str()
    }
}
