#![doc = include_str!("../README.md")]

mod assignment;
mod batch;
mod consumer;
mod delivery;
mod ledger;

pub use consumer::{Consumer, Handler, Outcome, Settings};
pub use delivery::{Delivery, Undecodable};
