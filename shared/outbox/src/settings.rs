//! Settings of a relay.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    pub brokers: String,
    pub topic: String,
    /// Maximum number of rows that are read, produced and marked together.
    pub batch_rows_max: u16,
    /// Longest time that the relay waits from the start of one batch to the start of the next, so that batches grow
    /// under load. See `service_kit::BatchInterval`.
    pub batch_interval_max: Duration,
    /// How long an idle relay sleeps if nothing wakes it. This poll finds the rows of a replica that
    /// died.
    pub poll_interval: Duration,
    /// How often the relay takes free shards, or releases those above its share.
    pub rebalance_interval: Duration,
    /// How often the relay reads its shards from their beginning. It finds rows that were changed by
    /// hand, or written while the clock was wrong.
    pub full_read_interval: Duration,
    /// How long the broker may take to acknowledge a batch. After that the relay releases its
    /// shards: another relay may be able to reach the broker.
    pub delivery_max: Duration,
    /// How long a batch waits for one Kafka partition while others deliver. After that the relay holds
    /// the orders of that partition, and the others continue.
    pub partition_wait_max: Duration,
    /// How long the relay may send nothing to the database before Postgres ends its session and
    /// frees its shards. Covers a paused process and a machine that disappeared.
    pub session_idle_max: Duration,
    /// Longest wait for the database. After it the step fails and is retried, in another session.
    pub store_wait_max: Duration,
    /// Called with the name of each crash point (a place between two durable steps) when the relay
    /// reaches it. Tests inject faults here. The default does nothing.
    pub reached: fn(&'static str),
}

impl Settings {
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic: topic.into(),
            batch_rows_max: 500,
            batch_interval_max: Duration::from_millis(20),
            poll_interval: Duration::from_millis(250),
            rebalance_interval: Duration::from_secs(1),
            full_read_interval: Duration::from_secs(60),
            delivery_max: Duration::from_secs(30),
            partition_wait_max: Duration::from_secs(3),
            session_idle_max: Duration::from_secs(30),
            store_wait_max: Duration::from_secs(15),
            reached: |_| {},
        }
    }
}
