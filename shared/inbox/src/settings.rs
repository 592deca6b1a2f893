//! What a consumer can be told.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    pub brokers: String,
    pub topic: String,
    pub group: String,
    /// Most messages in one transaction.
    pub batch_max: usize,
    /// Least time from the start of one batch to the next. Under load batches grow and cost less per
    /// message; a message that comes when the consumer is idle does not wait.
    pub min_interval: Duration,
    /// How long the broker may hold an empty fetch.
    pub fetch_wait_max_ms: u32,
    /// How long the broker waits for a sign of life before it gives the partitions to others.
    pub session_max_ms: u32,
    /// Longest time one transaction may take, so that a database that is cut off is an error.
    pub transaction_max: Duration,
    /// Pause before what failed is tried again.
    pub retry_pause: Duration,
    /// How often the handler may fail on one message before it is parked. A database that is away is
    /// not counted: that is tried for ever.
    pub tries_max: u32,
    /// How often the client says how far it is behind. It asks each partition's leader about that at
    /// most every 10 s; in between it goes by the messages that it fetches.
    pub statistics: Duration,
    /// Told the name of each place between two durable steps that is passed: for fault injection.
    pub reached: fn(&'static str),
}

impl Settings {
    pub fn new(brokers: &str, topic: &str, group: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            topic: topic.to_owned(),
            group: group.to_owned(),
            batch_max: 500,
            min_interval: Duration::from_millis(10),
            fetch_wait_max_ms: 500,
            // The least that a broker allows as it comes: a killed consumer's messages wait so long.
            session_max_ms: 6_000,
            transaction_max: Duration::from_secs(30),
            retry_pause: Duration::from_millis(500),
            tries_max: 5,
            statistics: Duration::from_secs(5),
            reached: |_| {},
        }
    }
}
