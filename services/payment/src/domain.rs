//! What a payment attempt is and may become: pure, no IO.

pub mod answer;
pub mod books;
pub mod direct;
pub mod errand;
pub mod refusal;
pub mod status;

pub use answer::Answer;
pub use direct::DirectCharge;
pub use errand::{Errand, charge_key, orphan_refund_key, refund_key};
pub use refusal::{Consequence, refuse};
pub use status::{Status, next};
