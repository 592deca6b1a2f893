//! The consumer on a real Postgres and a real Kafka; each test has a database, a topic and a group
//! of its own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also outside of its own function"
)]

mod ageing;
mod crashes;
mod effects;
mod harness;
mod lag;
mod losses;
mod operator;
mod outages;
mod parking;
mod rebalances;
mod redelivery;
mod redriving;
mod retries;
mod unreadable;
