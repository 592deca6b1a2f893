//! A request that moves money, validated before any work.

mod charge;
mod refund;

use std::sync::Arc;

use money::Money;
use serde::de::DeserializeOwned;
use service_kit::{body, json};
use thiserror::Error;
use uuid::Uuid;

use crate::domain::operation::Operation;
use crate::domain::test_method::{ChargeSpeed, TestMethod};

pub const KEY_LEN_MAX: usize = 255;
pub const REFERENCE_LEN_MAX: usize = 255;
/// The smallest charge, in minor units of any currency. A refund may be smaller.
pub const CHARGE_AMOUNT_MIN: i64 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub key: Arc<str>,
    pub reference: String,
    pub details: Details,
    /// Equal for equal requests. The order of members and white space do not matter.
    pub fingerprint: [u8; 32],
}

/// What the caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Details {
    Charge {
        amount: Money,
        payment_method: String,
    },
    /// In the currency of the charge, so the caller does not repeat it.
    Refund { charge_id: Uuid, amount: i64 },
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    #[error("send an Idempotency-Key of 1 to {KEY_LEN_MAX} visible ASCII characters")]
    Key,
    #[error("the body is not JSON, or an object in it has the same member twice")]
    Json,
    #[error("{0}")]
    Body(String),
    #[error("the smallest amount that can be charged is {CHARGE_AMOUNT_MIN} minor units")]
    AmountTooSmall,
    #[error("there is no such payment method")]
    UnknownPaymentMethod,
}

impl Request {
    pub fn operation(&self) -> Operation {
        match self.details {
            Details::Charge { .. } => Operation::Charge,
            Details::Refund { .. } => Operation::Refund,
        }
    }

    pub fn speed(&self) -> ChargeSpeed {
        match &self.details {
            Details::Charge { payment_method, .. } => TestMethod::of(payment_method).speed,
            Details::Refund { .. } => ChargeSpeed::Immediate,
        }
    }
}

fn key(header: Option<&[u8]>) -> Result<Arc<str>, Invalid> {
    header
        .and_then(|key| visible(key, KEY_LEN_MAX))
        .map(Arc::from)
        .ok_or(Invalid::Key)
}

/// Parses a JSON body of the right shape.
pub fn read<Body: DeserializeOwned>(text: &[u8]) -> Result<Body, Invalid> {
    let body = json::parse(text).map_err(|_| Invalid::Json)?;
    body::decode(body).map_err(|error| Invalid::Body(error.to_string()))
}

pub(super) fn require(field: &str, text: &str, len_max: usize) -> Result<(), Invalid> {
    match visible(text.as_bytes(), len_max) {
        Some(_) => Ok(()),
        None => Err(Invalid::Body(format!(
            "{field} must be 1 to {len_max} visible ASCII characters"
        ))),
    }
}

/// Text that is safe in a log, a header and a text column.
fn visible(text: &[u8], len_max: usize) -> Option<&str> {
    let fits = (1..=len_max).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
    fits.then(|| std::str::from_utf8(text).ok()).flatten()
}
