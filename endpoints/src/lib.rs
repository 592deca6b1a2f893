//! Where the parts of a running system are, and clients for them.
//!
//! Tests, the `chargeonce` command, the invariant checker and the lab attach to a system through
//! this crate. It starts nothing.

pub mod client;
pub mod database;
mod discovery;
pub mod operator;
pub mod provider;
pub mod service;
pub mod status;
pub mod topic;

pub use discovery::Endpoints;
pub use service::{PerService, Service};
