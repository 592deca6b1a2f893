//! The order service: takes orders once, announces them, and follows what becomes of them.

pub mod config;
pub mod consumer;
pub mod domain;
pub mod intake;
pub mod routes;
pub mod startup;
pub mod store;
