//! A mock payment provider: a real HTTP server with its own books, its own idempotency keys, and
//! faults that can be switched on at exact points of a charge, a refund or a cancellation.

pub mod clerks;
pub mod config;
pub mod domain;
pub mod error;
pub mod faults;
pub mod in_flight;
pub mod line;
pub mod provider;
pub mod routes;
pub mod startup;
pub mod store;

pub use error::Error;
