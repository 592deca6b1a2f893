//! Settings of a consumer.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    pub brokers: String,
    pub topic: String,
    /// Consumer group. Processed and parked messages are recorded per group.
    pub group: String,
    /// Maximum number of messages in one transaction.
    pub batch_messages_max: usize,
    /// Longest time that the consumer waits from the start of one batch to the start of the next, so that batches
    /// grow under load. See `service_kit::BatchInterval`.
    pub batch_interval_max: Duration,
    /// How long the broker may hold a fetch that has no messages.
    pub fetch_wait_max_ms: u32,
    /// How long the broker waits for a heartbeat before it gives the partitions to other consumers.
    pub session_timeout_ms: u32,
    /// The name of this process in its group, unique among its replicas. A new client with the same name takes
    /// the partitions of the old one immediately, instead of at the end of its session. `None` for a consumer that
    /// gets a new identity with each start, and leaves the group when it stops.
    pub instance_id: Option<String>,
    /// Longest time between two polls of the client. Then the broker gives the partitions to other
    /// consumers. It is also how long the broker waits in a rebalance for a member that has
    /// vanished, and nearly how long the client waits for the broker's answer. So it must be short,
    /// but longer than a transaction.
    pub poll_interval_max: Duration,
    /// How long the client may deliver nothing, although a broker is reachable and the client has
    /// unread messages or no partitions assigned. After it the consumer starts a new client. Longer
    /// than a rebalance may take.
    pub client_stall_max: Duration,
    /// How long the client may have no connected broker. After it the consumer starts a new client.
    /// A cluster whose brokers were all paused answers for a moment that it has no brokers. The
    /// client then forgets them (librdkafka issue 5301), and sometimes did not find them again. A new
    /// client asks the bootstrap servers.
    pub reconnect_after: Duration,
    /// How often the consumer checks that its position is still in the log that it has read.
    pub log_check_interval: Duration,
    /// Longest time one transaction may take. After it the consumer retries, even if the database
    /// stopped responding.
    pub transaction_max: Duration,
    /// Pause before a failed batch is tried again.
    pub retry_pause: Duration,
    /// How many times the handler may fail on one message before the message is parked. Failures of
    /// the database do not count: they are retried without limit.
    pub tries_max: u32,
    /// How often the client measures its lag. It asks each partition's leader at most every 10 s;
    /// in between it estimates from the messages that it fetches.
    pub statistics_interval: Duration,
    /// Called with the name of each crash point (a place between two durable steps) when the
    /// consumer reaches it. Tests inject faults here. The default does nothing.
    pub reached: fn(&'static str),
}

impl Settings {
    pub fn new(brokers: &str, topic: &str, group: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            topic: topic.to_owned(),
            group: group.to_owned(),
            batch_messages_max: 500,
            batch_interval_max: Duration::from_millis(20),
            fetch_wait_max_ms: 500,
            // The minimum that brokers allow by default. The messages of a killed consumer wait
            // this long for their next owner.
            session_timeout_ms: 6_000,
            instance_id: None,
            poll_interval_max: Duration::from_secs(45),
            client_stall_max: Duration::from_secs(60),
            reconnect_after: Duration::from_secs(15),
            log_check_interval: Duration::from_secs(5),
            transaction_max: Duration::from_secs(30),
            retry_pause: Duration::from_millis(500),
            tries_max: 5,
            statistics_interval: Duration::from_secs(5),
            reached: |_| {},
        }
    }
}
