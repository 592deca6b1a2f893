//! The console against a real running system, and alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod faults;
mod harness;
mod orders;
mod proof;
mod protection;
