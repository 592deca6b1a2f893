//! Reads the parts of the services over their operator listeners.

use anyhow::Context as _;
use endpoints::operator::OperatorClient;
use endpoints::{PerService, Service};
use futures_util::future::join_all;
use reqwest::Method;
use steps::Part;
use uuid::Uuid;

use crate::merge::merge;
use crate::order_timeline::OrderTimeline;

/// Our services. The provider comes last: its request needs the keys that payment returns.
const OUR_SERVICES: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];
/// Keys in one request; an order has one per attempt and refund.
const KEYS_MAX: usize = 50;

/// Base URLs of the operator listeners. Any replica of a service can respond.
pub type Targets = PerService<Vec<String>>;

/// Reads the timeline of one order. A service that does not respond is a missing part, not an error.
pub async fn read(operator: &OperatorClient, targets: &Targets, order_id: Uuid) -> OrderTimeline {
    let requests = OUR_SERVICES.map(|service| async move {
        let response = read_part(operator, targets.get(service), order_id, &[]).await;
        (service, response)
    });
    let mut responses = join_all(requests).await;
    let keys: Vec<String> = responses
        .iter()
        .filter_map(|(_, response)| response.as_ref().ok())
        .flat_map(|part| part.provider_keys.iter().take(KEYS_MAX).cloned())
        .collect();
    let response = read_part(operator, targets.get(Service::Psp), order_id, &keys).await;
    responses.push((Service::Psp, response));
    let responses = responses.into_iter().map(|(service, response)| {
        let response = response.map_err(|error| format!("{error:#}"));
        (service, response)
    });
    merge(order_id, responses.collect())
}

/// The part from the first replica that responds.
async fn read_part(
    operator: &OperatorClient,
    urls: &[String],
    order_id: Uuid,
    keys: &[String],
) -> anyhow::Result<Part> {
    let mut last = anyhow::anyhow!("the description of the system names no operator listener");
    for url in urls {
        match read_from(operator, url, order_id, keys).await {
            Ok(part) => return Ok(part),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn read_from(
    operator: &OperatorClient,
    url: &str,
    order_id: Uuid,
    keys: &[String],
) -> anyhow::Result<Part> {
    let url = url.trim_end_matches('/');
    let mut url = format!("{url}/admin/timeline/{order_id}");
    if !keys.is_empty() {
        // Our keys have no character that needs escaping in a query.
        url = format!("{url}?keys={}", keys.join(","));
    }
    let part = operator.call(Method::GET, &url, None).await?;
    serde_json::from_value(part)
        .context("the response is not a timeline: is the service an older version?")
}
