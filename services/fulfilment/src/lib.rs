//! The fulfilment service: decides whether a paid order ships, and ships it once.

pub mod config;
pub mod consumer;
pub mod domain;
pub mod recall;
pub mod startup;
pub mod store;
pub mod timeline;
