//! An answer as it is sent, and as it is kept to be sent again.

use serde::Serialize;
use serde_json::json;

use crate::domain::charge::Charge;
use crate::domain::fault::Failure;
use crate::domain::method::Decline;

const OK: u16 = 200;
const CREATED: u16 = 201;
const PAYMENT_REQUIRED: u16 = 402;

/// A status belongs to it: what a provider remembers under a key is an HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    /// For a charge that was captured or a refund that was made.
    pub fn created(object: &impl Serialize) -> Self {
        Self {
            status: CREATED,
            body: json!(object).to_string(),
        }
    }

    pub fn declined(decline: Decline) -> Self {
        Self::error(PAYMENT_REQUIRED, decline.code(), decline.message())
    }

    /// To every charge under a burnt key.
    pub fn burnt() -> Self {
        let message = "This key was cancelled before it was charged.";
        Self::error(PAYMENT_REQUIRED, "cancelled", message)
    }

    /// To a cancellation that came too late.
    pub fn captured_before(key: &str, charge: &Charge) -> Self {
        Self {
            status: OK,
            body: json!({"key": key, "status": "captured", "charge": charge}).to_string(),
        }
    }

    /// To a cancellation: nothing is charged under the key, and nothing will be.
    pub fn cancelled(key: &str) -> Self {
        Self {
            status: OK,
            body: json!({"key": key, "status": "cancelled"}).to_string(),
        }
    }

    /// What a fault makes the caller see.
    pub fn failed(failure: Failure) -> Self {
        let code = match failure.status {
            409 => "conflict",
            429 => "rate_limited",
            503 => "unavailable",
            _ => "provider_error",
        };
        Self::error(failure.status, code, "A fault was injected here.")
    }

    /// The shape of every error of this provider.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        Self {
            status,
            body: json!({"error": {"code": code, "message": message}}).to_string(),
        }
    }
}
