//! SQL as free functions over a connection; the caller owns the transaction.

pub mod operator;
pub mod receipts;
pub mod timeline;
