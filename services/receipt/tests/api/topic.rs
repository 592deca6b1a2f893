//! A topic for one test, and the payments announced on it.

use std::time::Duration;

use events::{Envelope, Line, Origin, PaymentCaptured, header};
use money::Currency;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use uuid::Uuid;

pub(crate) const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Topic {
    pub(crate) brokers: String,
    pub(crate) name: String,
    producer: FutureProducer,
}

impl Topic {
    pub(crate) async fn create() -> Self {
        let brokers = std::env::var("KAFKA_BROKERS").expect(
            "KAFKA_BROKERS is not set: run scripts/test.sh, or `lab infra -- cargo test …`",
        );
        let name = format!("receipt-{}", Uuid::new_v4());
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &brokers);
        let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
        let new = NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let created = admin.create_topics([&new], &options).await.unwrap();
        created[0].as_ref().unwrap();
        Self {
            producer: config.create().unwrap(),
            brokers,
            name,
        }
    }

    /// Announces the payment as the payment service's relay does, in a partition of the caller's
    /// choice.
    pub(crate) async fn captured(&self, partition: Option<i32>, order_id: Uuid, customer: &str) {
        let event = captured(order_id, customer);
        let (id, key) = (event.id.to_string(), order_id.to_string());
        let (kind, time) = (event.event_type.as_str(), event.time.to_rfc3339());
        let mut headers = OwnedHeaders::new();
        for (key, value) in [
            (header::ID, id.as_str()),
            (header::TYPE, kind),
            (header::SOURCE, &event.source),
            (header::SUBJECT, &key),
            (header::TIME, &time),
            (header::CORRELATION_ID, &event.correlation_id),
        ] {
            let value = Some(value);
            headers = headers.insert(Header { key, value });
        }
        let mut record = FutureRecord::to(&self.name)
            .key(&key)
            .headers(headers)
            .payload(&event.payload);
        record.partition = partition;
        self.producer.send(record, PATIENCE).await.unwrap();
    }
}

fn captured(order_id: Uuid, customer_id: &str) -> Envelope {
    let event = PaymentCaptured {
        v: 2,
        order_id,
        attempt: 1,
        charge_id: format!("ch_{order_id}"),
        amount: 5_000,
        currency: "USD".parse::<Currency>().unwrap(),
        lines: vec![Line {
            sku: "SKU-1".to_owned(),
            quantity: 2,
        }],
        customer_id: customer_id.to_owned(),
    };
    let correlation_id = format!("corr-{order_id}");
    let origin = Origin {
        source: "payment",
        correlation_id: &correlation_id,
        traceparent: None,
    };
    Envelope::seal(origin, &event).unwrap()
}
