//! Stores that go away, for tests of what the services do then, and the table that says what they do.

pub mod far_store;
pub mod table;

pub use far_store::{FarStore, Outage};
