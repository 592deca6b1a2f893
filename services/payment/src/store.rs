//! SQL as free functions over a connection; the caller owns the transaction.

pub mod attempts;
pub mod direct;
pub mod open_work;
pub mod operator;
pub mod payments;
pub mod queues;
pub mod reconciliation_progress;
pub mod reconciliations;
pub mod refunds;
pub mod resolutions;
mod status;
pub mod timeline;
pub mod unexplained;
