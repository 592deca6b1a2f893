//! Settings for the broker. `outbox` and `inbox` set the options of producer and consumer.

/// Stands for the name of the host in [`Settings::kafka_group_instance_id`].
const HOSTNAME: &str = "hostname";

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
    /// Name of this process in its consumer group, unique among its replicas (`group.instance.id`). A process that
    /// is killed and starts again under the same name continues immediately with its partitions. Without a name
    /// they wait for the end of the session. The text `hostname` stands for the name of the host or container.
    ///
    /// A named process does not leave the group when it stops: if it does not return, its partitions wait for the
    /// end of the session.
    #[arg(long, env = "KAFKA_GROUP_INSTANCE_ID")]
    pub kafka_group_instance_id: Option<String>,
    /// How many times a message may fail before it is parked. Failures of the database do not
    /// count.
    #[arg(long, env = "MESSAGE_TRIES_MAX", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub message_tries_max: u32,
}

impl Settings {
    /// The name of this process in its consumer group, if it has one.
    pub fn group_instance_id(&self) -> Option<String> {
        let name = self.kafka_group_instance_id.as_deref()?;
        match name {
            // An empty variable means no name.
            "" => None,
            HOSTNAME => Some(rustix::system::uname().nodename().to_string_lossy().into()),
            name => Some(name.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        kafka: Settings,
    }

    #[test]
    fn hostname_stands_for_the_name_of_the_host() {
        let name = |text: &str| {
            let flag = format!("--kafka-group-instance-id={text}");
            let program = Program::parse_from(["order", &flag]);
            program.kafka.group_instance_id()
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(name("hostname").as_deref(), Some(host.trim()));
        assert_eq!(name("payment-1").as_deref(), Some("payment-1"));
        assert_eq!(name(""), None);
    }
}
