//! The payment service alone: a real database for each test, and a provider that says what the
//! test tells it to.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also outside of its own function"
)]

mod application;
mod config;
mod direct;
mod fencing;
mod front;
mod gauges;
mod harness;
mod limits;
mod lookups;
mod outage;
mod provider;
mod reconciling;
mod recording;
mod refunds;
mod rejections;
mod settling;
mod shutdown;
mod statuses;
mod stepper;
mod unknowns;
