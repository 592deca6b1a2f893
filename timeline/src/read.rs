//! Asks the services for their parts.

use anyhow::Context as _;
use endpoints::operator::OperatorClient;
use endpoints::{PerService, Service};
use futures_util::future::join_all;
use reqwest::Method;
use steps::Part;
use uuid::Uuid;

use crate::merge::merge;
use crate::story::Story;

/// The provider is asked last, about the keys that payment names.
const FIRST: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];
/// Keys in one request; an order has one per attempt and refund.
const KEYS_MAX: usize = 50;

/// Base URLs of the operator listeners: any replica of a service answers.
pub type Targets = PerService<Vec<String>>;

/// The story of one order. A service without an answer is a missing part, not an error.
pub async fn read(operator: &OperatorClient, targets: &Targets, order_id: Uuid) -> Story {
    let asked = FIRST.map(|service| async move {
        let answer = ask(operator, targets.get(service), order_id, &[]).await;
        (service, answer)
    });
    let mut answers = join_all(asked).await;
    let keys: Vec<String> = answers
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().ok())
        .flat_map(|part| part.provider_keys.iter().take(KEYS_MAX).cloned())
        .collect();
    let answer = ask(operator, targets.get(Service::Psp), order_id, &keys).await;
    answers.push((Service::Psp, answer));
    let answers = answers.into_iter().map(|(service, answer)| {
        let answer = answer.map_err(|error| format!("{error:#}"));
        (service, answer)
    });
    merge(order_id, answers.collect())
}

/// The part of the first replica that answers.
async fn ask(
    operator: &OperatorClient,
    urls: &[String],
    order_id: Uuid,
    keys: &[String],
) -> anyhow::Result<Part> {
    let mut last = anyhow::anyhow!("the description of the system has no operator listener");
    for url in urls {
        match ask_one(operator, url, order_id, keys).await {
            Ok(part) => return Ok(part),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn ask_one(
    operator: &OperatorClient,
    url: &str,
    order_id: Uuid,
    keys: &[String],
) -> anyhow::Result<Part> {
    let url = url.trim_end_matches('/');
    let mut url = format!("{url}/admin/timeline/{order_id}");
    if !keys.is_empty() {
        // Our keys have no character that a query must escape.
        url = format!("{url}?keys={}", keys.join(","));
    }
    let part = operator.call(Method::GET, &url, None).await?;
    serde_json::from_value(part).context("the service returned no part of a timeline")
}
