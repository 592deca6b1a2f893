//! A topic for one test, and what payment and fulfilment announce on it.

use std::time::Duration;

use events::{
    Envelope, Event, FulfilmentShipped, Origin, PaymentCaptured, PaymentDeclined, PaymentRefunded,
    PaymentVoided, header,
};
use money::Currency;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use uuid::Uuid;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Topic {
    pub(crate) brokers: String,
    pub(crate) name: String,
    producer: FutureProducer,
}

/// What an event says, besides which order and attempt it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    Captured,
    Declined,
    Voided,
    Refunded,
    Shipped,
}

impl Topic {
    pub(crate) async fn create() -> Self {
        let brokers = std::env::var("KAFKA_BROKERS").expect(
            "KAFKA_BROKERS is not set: run scripts/test.sh, or `lab infra -- cargo test …`",
        );
        let name = format!("order-{}", Uuid::new_v4());
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &brokers);
        let admin: AdminClient<DefaultClientContext> = config.create().unwrap();
        let new = NewTopic::new(&name, 1, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let created = admin.create_topics([&new], &options).await.unwrap();
        created[0].as_ref().unwrap();
        Self {
            producer: config.create().unwrap(),
            brokers,
            name,
        }
    }

    /// Announces it as the relay of the service that says it does.
    pub(crate) async fn say(&self, order_id: Uuid, attempt: i32, what: Says) {
        let event = seal(order_id, attempt, what);
        let (id, key) = (event.id.to_string(), event.subject.to_string());
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
        let record = FutureRecord::to(&self.name)
            .key(&key)
            .headers(headers)
            .payload(&event.payload);
        self.producer.send(record, PATIENCE).await.unwrap();
    }
}

fn seal(order_id: Uuid, attempt: i32, what: Says) -> Envelope {
    let v = 1;
    let charge_id = format!("ch_{order_id}");
    let (amount, currency) = (5_000, "USD".parse::<Currency>().unwrap());
    match what {
        Says::Captured => by(
            "payment",
            &PaymentCaptured {
                v,
                order_id,
                attempt,
                charge_id,
                amount,
                currency,
                lines: vec![],
                customer_id: "cust-88".to_owned(),
            },
        ),
        Says::Declined => by(
            "payment",
            &PaymentDeclined {
                v,
                order_id,
                attempt,
                decline_code: "card_declined".to_owned(),
            },
        ),
        Says::Voided => by(
            "payment",
            &PaymentVoided {
                v,
                order_id,
                attempt,
            },
        ),
        Says::Refunded => by(
            "payment",
            &PaymentRefunded {
                v,
                order_id,
                attempt,
                charge_id,
                refund_id: format!("re_{order_id}"),
                amount,
                currency,
                reason: "out_of_stock".to_owned(),
            },
        ),
        Says::Shipped => by(
            "fulfilment",
            &FulfilmentShipped {
                v,
                order_id,
                attempt,
            },
        ),
    }
}

fn by(source: &'static str, event: &impl Event) -> Envelope {
    let origin = Origin {
        source,
        correlation_id: "c-1",
        traceparent: None,
    };
    Envelope::seal(origin, event).unwrap()
}
