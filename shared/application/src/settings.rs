//! The settings that all event-driven services have.

use std::net::SocketAddr;

use clap::Args;
use service_kit::{database, kafka, retention};

/// Settings that a service flattens into its own.
///
/// `listen`, `operator_listen` and `kafka_group` have a default in every service, but not the same one.
/// A service sets its defaults with `mut_arg`, so clap must not require the flags here.
///
/// Flatten this struct last: its help headings also apply to the fields after it.
#[derive(Clone, Debug, Args)]
#[group(id = "application")]
pub struct Settings {
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, env = "LISTEN", required = false, help_heading = None)]
    pub listen: SocketAddr,
    #[command(flatten, next_help_heading = "Operators")]
    pub operators: operators::Settings,
    #[command(flatten, next_help_heading = "Database")]
    pub database: database::Settings,
    #[command(flatten, next_help_heading = "Kafka")]
    pub kafka: kafka::Settings,
    /// Consumer group.
    #[arg(long, env = "KAFKA_GROUP", required = false, help_heading = "Kafka")]
    pub kafka_group: String,
    #[command(flatten, next_help_heading = "Retention")]
    pub retention: retention::Settings,
}

impl Settings {
    /// The settings of the consumer.
    pub(crate) fn inbox(&self) -> inbox::Settings {
        let (brokers, topic) = (&self.kafka.kafka_brokers, &self.kafka.kafka_topic);
        let mut settings = inbox::Settings::new(brokers, topic, &self.kafka_group);
        settings.fetch_wait_max_ms = self.kafka.kafka_fetch_wait_max_ms;
        settings.session_timeout_ms = self.kafka.kafka_session_timeout_ms;
        settings.instance_id = self.kafka.group_instance_id();
        settings.tries_max = self.kafka.message_tries_max;
        settings.reached = service_kit::crash::point;
        settings
    }

    /// The settings of the relay.
    pub(crate) fn outbox(&self) -> outbox::Settings {
        let (brokers, topic) = (&self.kafka.kafka_brokers, &self.kafka.kafka_topic);
        let mut settings = outbox::Settings::new(brokers, topic);
        settings.reached = service_kit::crash::point;
        settings
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    #[command(mut_arg("listen", |arg| arg.default_value("127.0.0.1:8081")))]
    #[command(mut_arg("operator_listen", |arg| arg.default_value("127.0.0.1:9081")))]
    #[command(mut_arg("kafka_group", |arg| arg.default_value("order")))]
    struct Program {
        #[command(flatten)]
        application: Settings,
    }

    const DATABASE: &str = "--database-url=postgres://localhost/order";

    #[test]
    fn service_sets_defaults_for_address_and_group() {
        let settings = Program::parse_from(["order", DATABASE]).application;
        assert_eq!(settings.listen.port(), 8081);
        assert_eq!(settings.operators.operator_listen.port(), 9081);
        assert_eq!(settings.kafka_group, "order");
    }

    #[test]
    fn flags_override_the_defaults_of_the_service() {
        let flags = ["order", DATABASE, "--listen=[::1]:7", "--kafka-group=g"];
        let settings = Program::parse_from(flags).application;
        assert_eq!(settings.listen.port(), 7);
        assert_eq!(settings.kafka_group, "g");
    }

    #[test]
    fn consumer_and_relay_get_the_kafka_settings() {
        let flags = [
            ["order", DATABASE],
            ["--kafka-brokers", "broker:9092"],
            ["--kafka-topic", "topic"],
            ["--kafka-fetch-wait-max-ms", "50"],
            ["--message-tries-max", "2"],
        ];
        let settings = Program::parse_from(flags.as_flattened()).application;
        let (inbox, outbox) = (settings.inbox(), settings.outbox());
        assert_eq!([&inbox.brokers, &outbox.brokers], ["broker:9092"; 2]);
        assert_eq!([&inbox.topic, &outbox.topic], ["topic"; 2]);
        assert_eq!(inbox.group, "order");
        assert_eq!((inbox.fetch_wait_max_ms, inbox.tries_max), (50, 2));
    }
}
