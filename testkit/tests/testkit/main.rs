//! Tests of the kit itself: real processes on free ports.

// The lint's exception for tests does not cover the functions that tests call.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod broker;
mod pages;
mod postgres;
mod process;
mod smtp_sink;
mod supervisor;
mod system;

use std::time::Duration;

/// Long enough for a busy machine. Only a failing test waits this long.
const WAIT_MAX: Duration = Duration::from_secs(120);
