//! The provider's rules, without IO: what a request asks for, how a card behaves, which fault
//! applies, and what the response says.

pub mod api_response;
pub mod cancellation;
pub mod charge;
pub mod clock;
pub mod cutoff;
pub mod fault;
pub mod key_use;
pub mod operation;
pub mod refund;
pub mod request;
pub mod settlement;
pub mod test_method;
