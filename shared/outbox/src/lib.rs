#![doc = include_str!("../README.md")]

mod delivery;
mod enqueue;
mod kafka;
mod relay;
mod session;
mod settings;
mod shards;
mod store;

pub use enqueue::{enqueue, shard_of};
pub use relay::{Outcome, Relay, Wake};
pub use settings::Settings;
pub use shards::SHARDS;
