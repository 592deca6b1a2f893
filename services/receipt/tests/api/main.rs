//! The receipt service on a real Postgres, with the lab's mail sink behind it; where a test needs a
//! broker it has a topic and a group of its own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, also outside of its own function"
)]

mod application;
mod config;
mod consuming;
mod doubts;
mod fencing;
mod harness;
mod operating;
mod outcomes;
mod sending;
mod stepper;
mod topic;
