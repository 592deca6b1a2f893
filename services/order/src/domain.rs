//! What an order is and may become: pure, no IO.

pub mod draft;
pub mod status;

pub use draft::{Draft, InvalidDraft};
pub use status::{Status, next};
