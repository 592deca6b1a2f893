//! Orders and the rules for changing them. Pure, no IO.

pub mod admission;
pub mod cancellation;
pub mod draft;
pub mod event;
pub mod order;
pub mod payment;
pub mod status;

pub use cancellation::{Cancellation, cancel};
pub use draft::{Draft, InvalidDraft};
pub use payment::{AfterFailure, NotPayable, PaymentRequest, after_failure, pay_again};
pub use status::{FIRST_VERSION, Status, catch_up, next};
