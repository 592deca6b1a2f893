#![doc = include_str!("../README.md")]

pub mod backoff;
mod batch_interval;
pub mod body;
pub mod crash;
pub mod database;
pub mod fair_share;
pub mod gauges;
pub mod http;
pub mod json;
pub mod kafka;
pub mod migration;
mod min_interval;
#[cfg(feature = "openapi")]
pub mod openapi_errors;
pub mod pressure;
pub mod probe;
pub mod problem;
pub mod program;
pub mod progress;
pub mod reaper;
pub mod request_error;
pub mod retention;
pub mod retry_after;
pub mod text_enum;
pub mod unprotected;
pub mod workers;

pub use backoff::Backoff;
pub use batch_interval::BatchInterval;
pub use fair_share::{FairShare, Place};
pub use gauges::{Gauges, Reading};
pub use min_interval::min_interval;
pub use pressure::{Pressure, QueueWait, Waits};
pub use probe::Probe;
pub use problem::Problem;
pub use progress::{Progress, Watch};
pub use reaper::{Reaper, Step, Swept};
pub use request_error::RequestError;
pub use unprotected::UNPROTECTED;
pub use workers::Workers;
