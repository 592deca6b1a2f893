#![doc = include_str!("../README.md")]

mod assignment;
mod batch;
mod checkpoint;
mod client;
mod consumer;
mod delivery;
mod fault;
mod gauge;
mod history;
mod lag;
mod log_check;
mod parked;
pub mod processed;
mod processor;
mod raw_message;
mod redrive;
mod routes;
mod settings;
mod source;
mod sweep;
mod timeline;

pub use consumer::{Consumer, Handler, StepOutcome};
pub use delivery::Delivery;
pub use fault::WrongDatabase;
pub use gauge::gauge;
pub use history::History;
pub use lag::Lag;
pub use settings::Settings;
pub use sweep::sweep;
pub use timeline::add_steps;
