//! The payment service: one intent for each attempt, one charge for each intent.

pub mod charger;
pub mod config;
pub mod consumer;
pub mod direct;
pub mod domain;
pub mod gauge;
pub mod outcome;
pub mod psp;
pub mod reconciler;
pub mod recorder;
pub mod routes;
pub mod startup;
pub mod store;
pub mod waiting;
