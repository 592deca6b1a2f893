//! The payment service: one intent for each attempt, one charge for each intent.

pub mod charger;
pub mod config;
pub mod consumer;
pub mod domain;
pub mod psp;
pub mod recorder;
pub mod routes;
pub mod startup;
pub mod store;
