//! Tests of the consumer with a real Postgres and a real Kafka. Each test has its own database, topic
//! and consumer group.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in the functions it calls"
)]

mod after_commit;
mod ageing;
mod crashes;
mod effects;
mod forgotten_brokers;
mod hangs;
mod harness;
mod lag;
mod losses;
mod operator;
mod outages;
mod parking;
mod plans;
mod rebalances;
mod redelivery;
mod redriving;
mod retries;
mod unreadable;
