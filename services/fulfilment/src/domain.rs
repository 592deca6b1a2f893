//! Which orders ship and which are rejected: pure, no IO.

pub mod allocation;
pub mod decision;
pub mod reaction;
pub mod recollection;
pub mod status;

pub use allocation::{allocate, per_sku};
pub use decision::{Decision, RejectionReason};
pub use reaction::{OrderEvent, PriorDecision, Reaction, react};
pub use recollection::{Fact, Recollection, recollect};
pub use status::{Status, next};
