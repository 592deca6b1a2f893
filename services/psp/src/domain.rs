//! What the provider decides, without IO: what a request asks for, how a card behaves, which fault
//! hits, and what is answered.

pub mod answer;
pub mod charge;
pub mod fault;
pub mod method;
pub mod request;
