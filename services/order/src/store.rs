//! SQL as free functions over a connection; the caller owns the transaction.

pub mod intake;
pub mod orders;
pub mod wishes;
