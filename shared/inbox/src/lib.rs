#![doc = include_str!("../README.md")]

mod assignment;
mod batch;
mod consumer;
mod delivery;
mod fault;
mod gauge;
mod lag;
pub mod ledger;
mod parked;
mod redrive;
mod routes;
mod settings;
mod source;
mod sweep;
mod wire;
mod work;

pub use consumer::{Consumer, Handler, Outcome};
pub use delivery::Delivery;
pub use gauge::gauge;
pub use lag::Lag;
pub use settings::Settings;
pub use sweep::sweep;
pub use wire::Undecodable;
