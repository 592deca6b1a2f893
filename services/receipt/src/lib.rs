//! The receipt service: one e-mail for each payment that was captured, declined or refunded, and for
//! each order that was cancelled.
//!
//! SMTP has no idempotency key. If a sender loses the response to a mail, or dies before it records
//! the response, it cannot ask the server whether the mail was accepted. So a mail is the only effect
//! of the system that can happen twice: only after such a loss is it sent again.
//! Repeated events, redelivery, replicas and restarts send nothing twice.

pub mod config;
pub mod consumer;
pub mod domain;
pub mod gauge;
pub mod recorder;
pub mod routes;
pub mod sender;
pub mod smtp;
pub mod startup;
pub mod store;
pub mod timeline;
