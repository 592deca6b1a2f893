//! A response as the provider sends it, and stores it to send it again.

use serde::Serialize;
use serde_json::json;

use crate::domain::charge::Charge;
use crate::domain::fault::Failure;
use crate::domain::test_method::Decline;

const OK: u16 = 200;
const CREATED: u16 = 201;
const PAYMENT_REQUIRED: u16 = 402;

/// Has an HTTP status, although the rest of the domain does not know HTTP: a provider stores a whole
/// HTTP response under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResponse {
    pub status: u16,
    pub body: String,
}

impl ApiResponse {
    /// The response to a request that made a charge or a refund.
    pub fn created(object: &impl Serialize) -> Self {
        Self {
            status: CREATED,
            body: json!(object).to_string(),
        }
    }

    pub fn declined(decline: Decline) -> Self {
        Self::error(PAYMENT_REQUIRED, decline.code(), decline.message())
    }

    /// The response to every charge under a cancelled key.
    pub fn key_cancelled() -> Self {
        let message = "This key was cancelled before it was charged.";
        Self::error(PAYMENT_REQUIRED, "cancelled", message)
    }

    /// The response to a cancellation that came after the charge: the charge is captured, or it is
    /// pending and may still be captured.
    pub fn already_charged(key: &str, charge: &Charge) -> Self {
        Self {
            status: OK,
            body: json!({"key": key, "status": charge.status, "charge": charge}).to_string(),
        }
    }

    /// The response to a cancellation: nothing was charged under the key, and nothing will be.
    pub fn cancelled(key: &str) -> Self {
        Self {
            status: OK,
            body: json!({"key": key, "status": "cancelled"}).to_string(),
        }
    }

    /// The response to a request that an injected fault ends with an error.
    pub fn failed(failure: &Failure) -> Self {
        let by_status = match failure.status {
            409 => "conflict",
            429 => "rate_limited",
            503 => "unavailable",
            _ => "provider_error",
        };
        let code = failure.code.as_deref().unwrap_or(by_status);
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
