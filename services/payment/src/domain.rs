//! Payment attempts and refunds: their states and rules. Pure, no IO.

pub mod attempt_status;
pub mod books;
pub mod direct;
pub mod lease;
pub mod provider_answer;
pub mod provider_call;
pub mod provider_key;
pub mod refund_status;
pub mod rejection;

pub use attempt_status::AttemptStatus;
pub use direct::DirectCharge;
pub use lease::Leased;
pub use provider_answer::ProviderAnswer;
pub use provider_call::ProviderCall;
pub use refund_status::RefundStatus;
