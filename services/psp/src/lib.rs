//! A mock payment provider: a real HTTP server with its own books and idempotency keys. Faults can be
//! armed at exact points of a charge, a refund or a cancellation.

pub mod batch_writer;
pub mod config;
pub mod domain;
pub mod droppable_connection;
pub mod error;
pub mod faults;
pub mod in_flight;
mod outcome_counts;
pub mod provider;
pub mod routes;
pub mod settler;
pub mod startup;
pub mod store;
pub mod timeline;

pub use error::Error;
