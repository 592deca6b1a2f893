#![doc = include_str!("../README.md")]

mod enqueue;
mod kafka;
mod relay;
mod shards;
mod store;

pub use enqueue::{enqueue, shard_of};
pub use relay::{Outcome, Relay, Settings, Wake};
pub use shards::SHARDS;
