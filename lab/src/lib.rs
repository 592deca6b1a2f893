//! The commands that run the whole system on one machine: to try it, break it and measure it.

// A command-line tool talks to its user on the console.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod balancer;
pub mod chaos;
pub mod demo;
pub mod idle;
pub mod infra;
pub mod load;
pub mod up;
