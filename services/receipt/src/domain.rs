//! The content of a receipt, its recipient, and its states. Pure, no IO.

pub mod mail;
pub mod recipient;
pub mod send_outcome;
pub mod status;

pub use recipient::Recipients;
pub use send_outcome::SendOutcome;
pub use status::{State, Status, TRIES_IN_DOUBT_MAX, next};
