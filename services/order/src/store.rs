//! SQL as free functions over a connection; the caller owns the transaction.

pub mod attempts;
pub mod cancellations;
pub mod intake;
pub mod orders;
pub mod timeline;
