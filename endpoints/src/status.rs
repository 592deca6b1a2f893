//! Statuses that programs outside of the services name. The tests of `invariants` compare them with the
//! services' enums.

/// An order whose money was taken.
pub const ORDER_PAID: &str = "paid";
/// An order that reached its customer.
pub const ORDER_SHIPPED: &str = "shipped";
/// A payment attempt without a recorded result.
pub const ATTEMPT_PENDING: &str = "pending";
/// A payment attempt that may have taken the money.
pub const ATTEMPT_UNKNOWN: &str = "unknown";
/// A receipt that the mail server accepted.
pub const RECEIPT_SENT: &str = "sent";
/// A payment attempt that took the money.
pub const ATTEMPT_CAPTURED: &str = "captured";
