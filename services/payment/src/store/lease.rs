//! What a lease gives: an attempt or a refund that this process may work on until it runs out.

use std::time::Duration;

use uuid::Uuid;

use crate::domain::{Errand, charge_key};

#[derive(Clone, Debug)]
pub struct Leased {
    pub order_id: Uuid,
    pub attempt: i32,
    pub token: Uuid,
    pub amount: i64,
    pub currency: String,
    pub tries: i32,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    pub errand: Errand,
}

/// How much to lease, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// One token for a batch: it tells this lease from any other of the same row.
    pub token: Uuid,
    pub lease: Duration,
    /// How long after its first try a key may be sent again; past it the provider may have
    /// forgotten the key, and is asked what became of it instead.
    pub resend_max: Duration,
    pub limit: i64,
}

impl Leased {
    /// The provider's key for it.
    pub fn key(&self) -> String {
        match &self.errand {
            Errand::Charge { .. } | Errand::LookUp | Errand::Cancel => {
                charge_key(self.order_id, self.attempt)
            }
            Errand::Refund { key, .. } | Errand::LookUpRefund { key } => key.clone(),
        }
    }
}

/// A leased row whose outcome was not told: to be tried again, with the same key, after a while.
#[derive(Clone, Copy, Debug)]
pub struct Postponement<'a> {
    pub leased: &'a Leased,
    pub delay: Duration,
    pub error: &'a str,
    /// The provider's books hold nothing under the key, so it counts as never sent.
    pub absent: bool,
}
