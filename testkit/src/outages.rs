//! Store outages for tests, and the document that lists how each endpoint responds to them.

pub mod store_behind_proxy;
pub mod table;

pub use store_behind_proxy::{Outage, StoreBehindProxy};
