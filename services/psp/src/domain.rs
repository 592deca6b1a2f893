//! What the provider decides, without IO: what a request asks for, how a card behaves, which fault
//! hits, and what is answered.

pub mod answer;
pub mod cancellation;
pub mod charge;
pub mod clock;
pub mod fault;
pub mod method;
pub mod operation;
pub mod refund;
pub mod request;
