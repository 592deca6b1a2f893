//! A request to cancel a key, so that nothing is charged under it.

use std::sync::Arc;

use serde::Deserialize;

use crate::domain::request::{self, Invalid, KEY_LEN_MAX, REFERENCE_LEN_MAX};

/// Needs no idempotency key: a repeat has the same effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancellation {
    /// The charge key to cancel.
    pub key: Arc<str>,
    pub reference: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    key: String,
    reference: String,
}

impl Cancellation {
    pub fn parse(body: &[u8]) -> Result<Self, Invalid> {
        let body: Body = request::read(body)?;
        request::require("key", &body.key, KEY_LEN_MAX)?;
        request::require("reference", &body.reference, REFERENCE_LEN_MAX)?;
        Ok(Self {
            key: Arc::from(body.key),
            reference: body.reference,
        })
    }
}
