//! A message on the topic has the headers, the key and the payload of the contract.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::harness::{Harness, event};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn message_matches_the_contract() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    let mut traced = event(order, 1);
    traced.traceparent = Some(TRACE.to_owned());
    let untraced = event(order, 2);
    harness.write(&[traced.clone(), untraced.clone()]).await;
    let mut relay = harness.relay(harness.settings());
    relay.step().await.unwrap();

    let messages = harness.topic.read().await;
    for (got, event) in messages.iter().zip([&traced, &untraced]) {
        assert_eq!(got.key, order.to_string());
        assert_eq!(got.payload, event.payload);
        let mut headers = got.headers.clone();
        let time: DateTime<Utc> = headers.remove("ce_time").unwrap().parse().unwrap();
        assert!((Utc::now() - time).num_seconds() < 60);
        let mut expected = BTreeMap::from(
            [
                ("ce_specversion", "1.0"),
                ("ce_id", &event.id.to_string()),
                ("ce_type", "fulfilment.shipped"),
                ("ce_source", "test"),
                ("ce_subject", &order.to_string()),
                ("content-type", "application/json"),
                ("correlation-id", "corr-1"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        if let Some(trace) = &event.traceparent {
            expected.insert("traceparent".to_owned(), trace.clone());
        }
        assert_eq!(headers, expected);
    }
    assert_eq!(messages.len(), 2);
}
