#![doc = include_str!("../README.md")]

mod assignment;
mod batch;
mod consumer;
mod delivery;
mod ledger;
mod settings;
mod source;

pub use consumer::{Consumer, Handler, Outcome};
pub use delivery::{Delivery, Undecodable};
pub use settings::Settings;
