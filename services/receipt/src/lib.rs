//! The receipt service: one e-mail for each captured payment.
//!
//! SMTP has no idempotency key. A server that accepted a mail whose sender then lost the answer, or
//! died before it could write it down, cannot be asked whether it has the mail. So this is the one
//! effect of the system that can happen twice: after such a loss, and only then, a mail is sent once
//! more. Everything else (repeated events, redelivery, replicas, restarts) sends nothing twice.

pub mod config;
pub mod consumer;
pub mod domain;
pub mod recorder;
pub mod routes;
pub mod sender;
pub mod smtp;
pub mod startup;
pub mod store;
