//! Paying again after a decline or a failure: the request, and when it is allowed.

use money::{InvalidPaymentMethod, PaymentMethod};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::Status;

/// The body of `POST /orders/{id}/payments`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaymentRequest {
    /// The name that the provider gave to the customer's card or account. Never a card number.
    #[schema(
        example = "pm_card_ok",
        min_length = 1,
        max_length = 64,
        pattern = "^[!-~]+$"
    )]
    payment_method: String,
}

impl PaymentRequest {
    /// The payment method, if the provider would accept its name.
    pub fn check(self) -> Result<PaymentMethod, InvalidPaymentMethod> {
        PaymentMethod::parse(self.payment_method)
    }
}

/// Why no further attempt can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPayable {
    /// The current attempt is open, or its outcome is unknown. This may change.
    Open,
    /// Money was taken. Even if it was refunded since, this order is finished.
    Paid,
    /// Cancelled, or cancellation was requested.
    Cancelled,
}

/// Whether a further attempt may be opened: only if the last one certainly took no money, and no
/// cancellation was requested.
pub fn pay_again(status: Status, cancel_requested: bool) -> Result<(), NotPayable> {
    match (status, cancel_requested) {
        (Status::Paid | Status::Shipped | Status::Refunded, _) => Err(NotPayable::Paid),
        (Status::Cancelled, _) | (Status::Placed | Status::Declined | Status::Failed, true) => {
            Err(NotPayable::Cancelled)
        }
        (Status::Placed, false) => Err(NotPayable::Open),
        (Status::Declined | Status::Failed, false) => Ok(()),
    }
}

/// What follows a failed payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// This service opens the next attempt automatically.
    Reopen,
    /// The order waits for the customer, and can pay again.
    AskCustomer,
    /// Cancellation was requested: the order can no longer be paid.
    Cancel,
}

/// What follows a failed payment. With `retry`, it failed only because the provider repeats an error under
/// the attempt's key; then the next attempt is opened, up to a limit.
pub fn after_failure(
    retry: bool,
    cancel_requested: bool,
    reopened: i32,
    reopens_max: u16,
) -> AfterFailure {
    match pay_again(Status::Failed, cancel_requested) {
        Err(_) => AfterFailure::Cancel,
        Ok(()) if retry && reopened < i32::from(reopens_max) => AfterFailure::Reopen,
        Ok(()) => AfterFailure::AskCustomer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unpaid_order_without_cancellation_is_payable() {
        use NotPayable::{Cancelled, Open, Paid};
        let expected = [
            (Status::Placed, Err(Open), Err(Cancelled)),
            (Status::Paid, Err(Paid), Err(Paid)),
            (Status::Shipped, Err(Paid), Err(Paid)),
            (Status::Declined, Ok(()), Err(Cancelled)),
            (Status::Failed, Ok(()), Err(Cancelled)),
            (Status::Cancelled, Err(Cancelled), Err(Cancelled)),
            (Status::Refunded, Err(Paid), Err(Paid)),
        ];
        assert_eq!(expected.map(|(status, ..)| status), Status::ALL);
        for (status, payable, after_request) in expected {
            assert_eq!(pay_again(status, false), payable, "{status}");
            let message = format!("{status}, cancellation requested");
            assert_eq!(pay_again(status, true), after_request, "{message}");
        }
    }

    #[test]
    fn only_a_retry_below_the_limit_reopens() {
        use AfterFailure::{AskCustomer, Cancel, Reopen};
        assert_eq!(after_failure(true, false, 2, 3), Reopen);
        assert_eq!(after_failure(true, false, 3, 3), AskCustomer);
        assert_eq!(after_failure(false, false, 0, 3), AskCustomer);
        for retry in [true, false] {
            assert_eq!(after_failure(retry, true, 0, 3), Cancel);
        }
    }
}
