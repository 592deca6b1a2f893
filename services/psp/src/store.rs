//! SQL as free functions over a connection; the caller owns the transaction.

pub mod cancellations;
pub mod charges;
pub mod refunds;
pub mod requests;
pub mod settlements;
pub mod timeline;

/// Maximum number of rows that one lookup returns. More than one row is already a caller's mistake.
pub const LOOKUP_ROWS_MAX: i64 = 100;
