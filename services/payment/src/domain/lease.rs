//! An attempt or a refund that this process may work on until its lease ends.

use std::time::Duration;

use leases::LeaseEnd;
use uuid::Uuid;

use crate::domain::provider_answer::PROVIDER_ERROR;
use crate::domain::provider_key::charge_key;
use crate::domain::{KeyState, ProviderAnswer, ProviderCall};

#[derive(Clone, Debug)]
pub struct Leased {
    pub order_id: Uuid,
    pub attempt: i32,
    pub principal: String,
    /// The lease token. A result is recorded only while the row has this token. `None` in an unprotected program.
    pub token: Option<Uuid>,
    /// The end of the lease. No call may start after it.
    pub ends: LeaseEnd,
    pub amount: i64,
    pub currency: String,
    /// What is paid, as the provider knows it.
    pub reference: String,
    /// Calls so far, this one included.
    pub tries: i32,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    /// Fulfilment has rejected the order.
    pub rejected: bool,
    pub key_state: KeyState,
    /// The attempt may have been sent before a restore, and is not sent for now.
    pub held: bool,
    /// How long ago the key was last sent, if ever.
    pub sent_ago: Option<Duration>,
    pub call: ProviderCall,
}

impl Leased {
    /// The provider's key of the charge or the refund.
    pub fn key(&self) -> String {
        match &self.call {
            ProviderCall::Charge { .. } | ProviderCall::LookUpCharge | ProviderCall::CancelKey => {
                charge_key(self.order_id, self.attempt)
            }
            ProviderCall::Refund { key, .. } | ProviderCall::LookUpRefund { key, .. } => {
                key.clone()
            }
        }
    }

    /// The next try after an answer that settled nothing, for an unprotected program. A protected one leases the row again instead.
    pub fn next_try(&self, answer: &ProviderAnswer) -> Self {
        let key_state = self.key_state.after(answer);
        let call = match &self.call {
            ProviderCall::Charge { .. } if !key_state.may_send() => ProviderCall::LookUpCharge,
            call => call.clone(),
        };
        Self {
            tries: self.tries + 1,
            key_state,
            call,
            ..self.clone()
        }
    }

    /// What an absence means for this row. The provider's lookups may lag behind its charges: until
    /// `absence_age` after the last send, an absence proves nothing. After it, a rejected attempt is
    /// closed, and one whose key is spent has failed. A held attempt stays as it is: believed, the absence
    /// would let it be sent. Other answers stay as they are.
    pub fn interpret(&self, answer: ProviderAnswer, absence_age: Duration) -> ProviderAnswer {
        if answer != ProviderAnswer::Absent {
            return answer;
        }
        match self.sent_ago {
            Some(ago) if ago < absence_age => ProviderAnswer::Unknown {
                reason: "the provider has no entry under the key yet".to_owned(),
                retry_after: Some(absence_age - ago),
            },
            _ if self.rejected && self.call.is_for_attempt() => ProviderAnswer::Cancelled,
            _ if self.key_state == KeyState::Spent => ProviderAnswer::Failed {
                code: PROVIDER_ERROR.to_owned(),
            },
            _ if self.held => ProviderAnswer::Unknown {
                reason: "held after a restore: the provider has no entry under the key".to_owned(),
                retry_after: None,
            },
            _ => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_try_sends_the_key_only_while_it_is_usable() {
        let call = ProviderCall::Charge {
            payment_method: "pm".to_owned(),
        };
        let first = Leased {
            order_id: Uuid::nil(),
            attempt: 1,
            principal: String::new(),
            token: None,
            ends: LeaseEnd::never(),
            amount: 1,
            currency: "EUR".to_owned(),
            reference: String::new(),
            tries: 1,
            correlation_id: String::new(),
            traceparent: None,
            rejected: false,
            key_state: KeyState::Usable,
            held: false,
            sent_ago: None,
            call: call.clone(),
        };
        let unknown = ProviderAnswer::Unknown {
            reason: String::new(),
            retry_after: None,
        };
        let second = first.next_try(&unknown);
        assert_eq!((second.tries, second.call), (2, call));
        let second = first.next_try(&ProviderAnswer::Processing);
        assert_eq!(second.call, ProviderCall::LookUpCharge);
    }
}
