//! The relay on a real Postgres and a real Kafka; each test has a database and a topic of its own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also outside of its own function"
)]

mod backlog;
mod crashes;
mod harness;
mod late_commits;
mod order;
mod outages;
mod replicas;
mod republishing;
mod retention;
mod sessions;
mod wakes;
mod wire;
