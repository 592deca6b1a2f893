//! SQL, and nothing else: free functions over a connection that the caller owns.

pub mod cancellations;
pub mod charges;
pub mod refunds;
pub mod requests;

/// Most rows that one lookup returns. More than one is already somebody's mistake.
pub const LOOKUP_ROWS_MAX: i64 = 100;
