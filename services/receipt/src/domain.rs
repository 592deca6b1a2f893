//! What a receipt says, who gets it, and how it ends: pure, no IO.

pub mod mail;
pub mod recipient;
pub mod send_outcome;
pub mod status;

pub use recipient::Recipients;
pub use send_outcome::SendOutcome;
pub use status::{State, Status, TRIES_IN_DOUBT_MAX, next};
