#![doc = include_str!("../README.md")]

mod availability;
mod backlog;
mod batch;
mod delivery;
mod enqueue;
mod floors;
mod guard;
mod held;
mod kafka;
mod overlap;
mod partitions;
mod positions;
mod relay;
mod republication;
mod republish;
mod retention;
mod routes;
mod session;
mod settings;
mod shards;
mod store;
mod timeline;
mod unprotected;

pub use backlog::{Backlog, backlog, gauge};
pub use enqueue::{COLUMNS, enqueue, shard_of};
pub use guard::{Guard, GuardOutcome};
pub use relay::{Relay, StepOutcome, Wake};
pub use republish::republish;
pub use retention::{Maintained, Retention, maintain, sweep};
pub use routes::routes;
pub use settings::Settings;
pub use shards::SHARDS;
pub use timeline::add_steps;
