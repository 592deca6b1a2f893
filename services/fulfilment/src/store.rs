//! SQL as free functions over a connection; the caller owns the transaction.

pub mod recalled;
pub mod shipments;
pub mod stock;
pub mod timeline;
