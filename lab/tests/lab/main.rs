//! Tests of the lab's commands, run as a user runs them.

// The lint's exception for tests does not reach the functions that tests call.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod infra;
