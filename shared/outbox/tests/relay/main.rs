//! Tests of the relay with a real Postgres and a real Kafka. Each test has its own database and topic.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in the functions it calls"
)]

mod backlog;
mod columns;
mod crashes;
mod data_loss;
mod hangs;
mod harness;
mod held_orders;
mod late_commits;
mod message_format;
mod order;
mod outages;
mod plans;
mod producer_ids;
mod replicas;
mod republishing;
mod retention;
mod sessions;
mod timeline;
mod wakes;
