#![doc = include_str!("../README.md")]

mod envelope;
mod event_type;
pub mod header;
mod payload;

pub use envelope::{Envelope, Origin, event_ids};
pub use event_type::UnknownEventType;
pub use payload::*;
