//! The content of a mail, its recipient, and its states. Pure, no IO.

pub mod age_limit;
pub mod mail;
pub mod mail_type;
pub mod recipient;
pub mod resolution;
pub mod send_outcome;
pub mod status;

pub use age_limit::AgeLimit;
pub use mail_type::MailType;
pub use recipient::Recipients;
pub use send_outcome::SendOutcome;
pub use status::{State, Status, TRIES_IN_DOUBT_MAX, next};
