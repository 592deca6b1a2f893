//! What ships and what does not: pure, no IO.

pub mod allocation;
pub mod status;

pub use allocation::{Decision, Demand, allocate};
pub use status::{Status, next};
