//! Settings for the broker. `outbox` and `inbox` set the options of producer and consumer.

/// Flatten them into the settings of a service.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "kafka")]
pub struct Settings {
    /// Bootstrap servers, comma separated.
    #[arg(long, env = "KAFKA_BROKERS", default_value = "127.0.0.1:9092")]
    pub kafka_brokers: String,
    /// The topic of all events, keyed by order id.
    #[arg(long, env = "KAFKA_TOPIC", default_value = "order-events")]
    pub kafka_topic: String,
    /// How long the broker may hold a fetch that has nothing to return. Use a low value with the
    /// embedded broker, which always waits for the full time.
    #[arg(long, env = "KAFKA_FETCH_WAIT_MAX_MS", default_value_t = 500)]
    pub kafka_fetch_wait_max_ms: u32,
    /// How long the broker waits for a heartbeat before it gives the partitions to other consumers.
    /// The broker must allow it (`group.min.session.timeout.ms`).
    #[arg(long, env = "KAFKA_SESSION_TIMEOUT_MS", default_value_t = 6_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..))]
    pub kafka_session_timeout_ms: u32,
    /// How many times a message may fail before it is parked. Failures of the database do not
    /// count.
    #[arg(long, env = "MESSAGE_TRIES_MAX", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub message_tries_max: u32,
}
