//! What tests and the lab need to run real parts on one machine.
//!
//! Everything is a real process: a Postgres cluster, a broker, the services. [`system`] puts them
//! together and [`supervisor`] keeps them running. The proxies, the SMTP sink and the topic helper
//! serve single tests.

// Helpers report progress on the console, and panic like the tests that call them.
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod binaries;
pub mod broker;
pub mod fault_proxy;
pub mod order_stub;
pub mod outages;
pub mod polling;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod progress;
pub mod readiness;
pub mod retrying_proxy;
pub mod scratch;
pub mod signals;
pub mod smtp_sink;
pub mod supervisor;
pub mod system;
pub mod test_topic;

pub use polling::eventually;
pub use test_topic::TestTopic;
