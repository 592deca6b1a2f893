//! The receipt service on a real Postgres, with the testkit's SMTP sink behind it. A test that needs a
//! broker has its own topic and consumer group.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in a helper function"
)]

mod application;
mod config;
mod consuming;
mod dialogues;
mod fencing;
mod hangs;
mod harness;
mod held;
mod in_doubt;
mod logged_leased;
mod mail_server;
mod mail_types;
mod operating;
mod outcomes;
mod plans;
mod redriving;
mod resolving;
mod sending;
mod statuses;
mod stepper;
mod suspension;
mod timeline;
mod topic;
