//! The order service: accepts each order once, publishes it, and tracks its payment and shipment.

pub mod admission;
pub mod config;
pub mod consumer;
pub mod domain;
pub mod intake;
pub mod responses;
pub mod routes;
pub mod startup;
pub mod store;
pub mod timeline;
