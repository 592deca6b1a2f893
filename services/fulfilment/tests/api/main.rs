//! The fulfilment service on a real Postgres and a real Kafka. Each test has its own database, topic
//! and consumer group.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in a helper function"
)]

mod atomicity;
mod cancellations;
mod harness;
mod outage;
mod recall;
mod redelivery;
mod statuses;
mod stock;
mod timeline;
mod topic;
