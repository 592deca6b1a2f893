//! A request that moves money, checked before anything is done for it.

mod charge;
mod refund;

use std::sync::Arc;

use money::Money;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use thiserror::Error;
use uuid::Uuid;

use crate::domain::method::{Method, Pace};
use crate::domain::operation::Operation;

pub const KEY_LEN_MAX: usize = 255;
pub const REFERENCE_LEN_MAX: usize = 255;
pub const PAYMENT_METHOD_LEN_MAX: usize = money::PaymentMethod::LEN_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub key: Arc<str>,
    pub reference: String,
    pub ask: Ask,
    /// Equal for equal requests, whatever the order of members and the white space.
    pub fingerprint: [u8; 32],
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Charge {
        amount: Money,
        payment_method: String,
    },
    /// In the charge's currency, which the caller need not repeat.
    Refund { charge_id: Uuid, amount: i64 },
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    #[error("send an Idempotency-Key of 1 to {KEY_LEN_MAX} visible ASCII characters")]
    Key,
    #[error("the body is not JSON")]
    Json,
    #[error("{0}")]
    Body(String),
}

impl Request {
    pub fn operation(&self) -> Operation {
        match self.ask {
            Ask::Charge { .. } => Operation::Charge,
            Ask::Refund { .. } => Operation::Refund,
        }
    }

    pub fn pace(&self) -> Pace {
        match &self.ask {
            Ask::Charge { payment_method, .. } => Method::of(payment_method).pace,
            Ask::Refund { .. } => Pace::Prompt,
        }
    }
}

fn key(header: Option<&[u8]>) -> Result<Arc<str>, Invalid> {
    header
        .and_then(|key| visible(key, KEY_LEN_MAX))
        .map(Arc::from)
        .ok_or(Invalid::Key)
}

/// A body, if it is JSON of the right shape.
pub(super) fn read<Body: DeserializeOwned>(body: &[u8]) -> Result<Body, Invalid> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => Invalid::Body(error.to_string()),
        Category::Io | Category::Syntax | Category::Eof => Invalid::Json,
    })
}

pub(super) fn require(field: &str, text: &str, len_max: usize) -> Result<(), Invalid> {
    match visible(text.as_bytes(), len_max) {
        Some(_) => Ok(()),
        None => Err(Invalid::Body(format!(
            "{field} must be 1 to {len_max} visible ASCII characters"
        ))),
    }
}

/// Nothing that a log, a header or a text column could choke on.
fn visible(text: &[u8], len_max: usize) -> Option<&str> {
    let fits = (1..=len_max).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
    fits.then(|| std::str::from_utf8(text).ok()).flatten()
}
