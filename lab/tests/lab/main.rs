//! Runs the lab's commands as a user does.

// The lint's exception for tests does not cover the functions that tests call.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod bench;
mod infra;
mod price;
#[cfg(feature = "long")]
mod unprotected;

use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.args(arguments).output().unwrap()
}
