//! The load generator: sends orders to the order service as its clients do, with retries, duplicates and
//! hang-ups.

mod customer;
pub(crate) mod drive;
mod http;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod tally;
