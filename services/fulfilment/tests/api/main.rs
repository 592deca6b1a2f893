//! The fulfilment service on a real Postgres and a real Kafka; each test has a database, a topic
//! and a group of its own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also outside of its own function"
)]

mod atomicity;
mod cancels;
mod harness;
mod outage;
mod redelivery;
mod stock;
mod topic;
