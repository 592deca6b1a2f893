//! The payment service: stores each payment attempt, and charges it once.

pub mod charger;
pub mod config;
pub mod consumer;
pub mod direct;
pub mod domain;
pub mod follow_ups;
pub mod gauge;
pub mod provider;
pub mod psp;
pub mod queue_keeper;
pub mod reconciler;
pub mod recorder;
pub mod resolution;
pub mod responses;
pub mod routes;
pub mod startup;
pub mod store;
pub mod timeline;
pub mod waiting;
