//! What a receipt says, to whom, and what becomes of it: pure, no IO.

pub mod mail;
pub mod outcome;
pub mod recipient;
pub mod status;

pub use outcome::Outcome;
pub use recipient::Recipients;
pub use status::{DOUBTS_MAX, Next, next};
