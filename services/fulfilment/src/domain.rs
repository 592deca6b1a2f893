//! Which orders ship and which are rejected: pure, no IO.

pub mod allocation;
pub mod decision;
pub mod reaction;
pub mod status;

pub use allocation::allocate;
pub use decision::{Decision, RejectionReason};
pub use reaction::{OrderEvent, PriorDecision, Reaction, react};
pub use status::{Status, next};
