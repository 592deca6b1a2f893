//! Runs the parts of the system on one machine, for tests and the lab.
//!
//! Every part is a real process: a Postgres cluster, a broker, the services. [`system`] starts them
//! together and [`supervisor`] restarts what dies. Single tests also use the proxies, the SMTP sink,
//! the stub of the order service and [`TestTopic`].

// The kit prints progress and restarts to the console.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod api_response;
pub mod binaries;
pub mod broker;
pub mod fault_proxy;
pub mod kafka_proxy;
pub mod operator;
pub mod order_spans;
pub mod order_stub;
pub mod outages;
pub mod polling;
mod ports;
pub mod postgres;
pub mod process;
pub mod progress;
mod readiness;
pub mod retrying_proxy;
pub mod scratch;
pub mod signals;
pub mod smtp_sink;
pub mod supervisor;
pub mod system;
pub mod test_topic;

pub use api_response::ApiResponse;
pub use polling::eventually;
pub use test_topic::TestTopic;
