//! The payment provider: its ledger, read from its own database, and the faults that tests arm.

mod faults;
mod ledger;

pub use faults::{Fault, Faults};
pub use ledger::{charges_per_order, references_charged_twice, refunds_per_order};
