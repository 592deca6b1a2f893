//! Payment attempts and refunds: their states and rules. Pure, no IO.

pub mod attempt_status;
pub mod books;
pub mod direct;
pub mod key_state;
pub mod lease;
pub mod provider_answer;
pub mod provider_call;
pub mod provider_key;
pub mod provider_limits;
pub mod refund_status;
pub mod rejection;
pub mod unexplained_status;

pub use attempt_status::AttemptStatus;
pub use direct::DirectCharge;
pub use key_state::KeyState;
pub use lease::Leased;
pub use provider_answer::ProviderAnswer;
pub use provider_call::{AttemptSituation, ProviderCall};
pub use provider_limits::ProviderLimits;
pub use refund_status::RefundStatus;
pub use unexplained_status::UnexplainedStatus;
