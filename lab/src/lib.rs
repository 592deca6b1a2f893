//! Runs the whole system on one machine, for the demo, the tests and the measurements.
//!
//! Everything is a real process: a Postgres cluster, a broker, the services. [`system`] puts
//! them together, [`supervisor`] keeps them running, the rest are commands and parts.

// A command-line tool talks to its user on the console.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod balance;
pub mod binaries;
pub mod broker;
pub mod chaos;
pub mod check;
pub mod client;
pub mod demo;
pub mod gateway;
pub mod idle;
pub mod infra;
pub mod invariants;
pub mod load;
pub mod operator;
pub mod outages;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod progress;
pub mod readiness;
pub mod reconcile;
pub mod redrive;
pub mod republish;
pub mod scratch;
pub mod service;
pub mod signals;
pub mod smtp_sink;
pub mod supervisor;
pub mod system;
pub mod topic;
pub mod up;
pub mod verify;
pub mod wire;
