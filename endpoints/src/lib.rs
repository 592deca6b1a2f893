//! Where the parts of a running system are, and clients for them.
//!
//! Tests, the operator's command, the invariant checker and the lab all attach to a system through
//! this crate. It starts nothing.

pub mod client;
mod directory;
pub mod provider;
pub mod service;
pub mod topic;

pub use directory::Endpoints;
pub use service::{PerService, Service};
