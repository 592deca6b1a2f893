//! An attempt or a refund that this process may work on until its lease ends.

use leases::LeaseEnd;
use uuid::Uuid;

use crate::domain::ProviderCall;
use crate::domain::provider_key::charge_key;

#[derive(Clone, Debug)]
pub struct Leased {
    pub order_id: Uuid,
    pub attempt: i32,
    pub principal: String,
    /// The lease token. A result is recorded only while the row has this token.
    pub token: Uuid,
    /// The end of the lease. No call may start after it.
    pub ends: LeaseEnd,
    pub amount: i64,
    pub currency: String,
    /// Calls so far, this one included.
    pub tries: i32,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    pub call: ProviderCall,
}

impl Leased {
    /// The provider's key of the charge or the refund.
    pub fn key(&self) -> String {
        match &self.call {
            ProviderCall::Charge { .. } | ProviderCall::LookUpCharge | ProviderCall::CancelKey => {
                charge_key(self.order_id, self.attempt)
            }
            ProviderCall::Refund { key, .. } | ProviderCall::LookUpRefund { key } => key.clone(),
        }
    }
}
