//! The operator listener with a real Postgres. Each test has its own database.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, even in the functions it calls"
)]

mod audit_log;
mod authentication;
mod harness;
mod log;
