//! What a relay can be told.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    pub brokers: String,
    pub topic: String,
    /// Most rows read, produced and marked together.
    pub batch_max: u16,
    /// Least time from the start of one batch to the next. Under load batches grow and cost less per
    /// row; a row that comes when the relay is idle does not wait.
    pub min_interval: Duration,
    /// How long it sleeps without being woken; finds rows of a replica that died.
    pub poll: Duration,
    /// How often it looks for shards to take or to give up.
    pub rebalance: Duration,
    /// How long the broker may take to acknowledge before the rows are given back: another relay
    /// may be able to reach it.
    pub delivery_max: Duration,
    /// How long it may be silent towards the database before it loses its shards: when it is
    /// paused, or its machine is gone.
    pub silence_max: Duration,
    /// Told the name of each place between two durable steps that is passed: for fault injection.
    pub reached: fn(&'static str),
}

impl Settings {
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic: topic.into(),
            batch_max: 500,
            min_interval: Duration::from_millis(10),
            poll: Duration::from_millis(250),
            rebalance: Duration::from_secs(1),
            delivery_max: Duration::from_secs(30),
            silence_max: Duration::from_secs(30),
            reached: |_| {},
        }
    }
}
