//! Paying again after a decline: what is asked for, and when it may be had.

use money::{InvalidPaymentMethod, PaymentMethod};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::Status;

/// The body of `POST /orders/{id}/payments`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaymentRequest {
    #[schema(
        example = "pm_card_ok",
        min_length = 1,
        max_length = 64,
        pattern = "^[!-~]+$"
    )]
    payment_method: String,
}

impl PaymentRequest {
    /// The payment method, if a provider can read it.
    pub fn check(self) -> Result<PaymentMethod, InvalidPaymentMethod> {
        PaymentMethod::parse(self.payment_method)
    }
}

/// Why no further attempt may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPayable {
    /// The attempt before is open, or its outcome is not known yet. This may change.
    Open,
    /// Money was taken. It may have been given back since: this order is over all the same.
    Paid,
    /// Called off, or asked to be.
    Cancelled,
}

/// Whether the order may be paid by a further attempt: only if the last one took no money for sure,
/// and nobody wants to be rid of the order.
pub fn pay_again(status: Status, cancel_requested: bool) -> Result<(), NotPayable> {
    match (status, cancel_requested) {
        (Status::Paid | Status::Shipped | Status::Refunded, _) => Err(NotPayable::Paid),
        (Status::Cancelled, _) | (Status::Placed | Status::Declined, true) => {
            Err(NotPayable::Cancelled)
        }
        (Status::Placed, false) => Err(NotPayable::Open),
        (Status::Declined, false) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_declined_order_that_is_still_wanted_may_be_paid_again() {
        use NotPayable::{Cancelled, Open, Paid};
        let expected = [
            (Status::Placed, Err(Open), Err(Cancelled)),
            (Status::Paid, Err(Paid), Err(Paid)),
            (Status::Shipped, Err(Paid), Err(Paid)),
            (Status::Declined, Ok(()), Err(Cancelled)),
            (Status::Cancelled, Err(Cancelled), Err(Cancelled)),
            (Status::Refunded, Err(Paid), Err(Paid)),
        ];
        assert_eq!(expected.map(|(status, ..)| status), Status::ALL);
        for (status, wanted, called_off) in expected {
            assert_eq!(pay_again(status, false), wanted, "{status}");
            assert_eq!(pay_again(status, true), called_off, "{status}, called off");
        }
    }
}
