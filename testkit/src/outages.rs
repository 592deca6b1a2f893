//! Stores that go away, for tests of what the services do then, and the table that says what they do.

pub mod store_behind_proxy;
pub mod table;

pub use store_behind_proxy::{Outage, StoreBehindProxy};
