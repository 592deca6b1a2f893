//! A mock payment provider: a real HTTP server with its own books, its own idempotency keys, and
//! faults that can be switched on at exact points of a charge.

pub mod charging;
pub mod clerks;
pub mod config;
pub mod domain;
pub mod error;
pub mod faults;
pub mod in_flight;
pub mod line;
pub mod routes;
pub mod startup;
pub mod store;

pub use error::Error;
