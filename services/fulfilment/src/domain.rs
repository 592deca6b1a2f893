//! What ships and what does not: pure, no IO.

pub mod allocation;
pub mod ruling;
pub mod status;

pub use allocation::{Decision, Demand, allocate};
pub use ruling::{Ask, CANCELLED, Known, Ruling, rule};
pub use status::{Status, UnknownStatus, next};
