//! Statuses that programs outside of the services name. The tests of `invariants` compare them with the
//! services' enums.

/// An order that reached its customer.
pub const ORDER_SHIPPED: &str = "shipped";
/// A receipt that the mail server accepted.
pub const RECEIPT_SENT: &str = "sent";
/// A payment attempt that took the money.
pub const ATTEMPT_CAPTURED: &str = "captured";
