//! Chapter: the same request many times in parallel, before any of them has a response.

use std::collections::{BTreeMap, HashSet};

use anyhow::ensure;
use endpoints::client::{ApiResponse, new_key, order_body};
use tokio::task::JoinSet;

use super::context::{Demo, explain, print_response};

const COPIES: usize = 20;

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<()> {
    demo.chapter("Twenty copies of one request arrive at the same time");
    let (key, body) = (new_key("demo-parallel"), order_body(1));
    demo.print_request(&key, &body);
    explain(&format!(
        "This request is sent {COPIES} times in parallel. The responses, before any retry:"
    ));
    let mut responses: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids = HashSet::new();
    for response in send_copies(demo, &key, &body).await? {
        *responses.entry(response.summary()).or_default() += 1;
        if response.is_accepted() {
            ids.insert(response.order_id()?);
        } else {
            ensure!(
                response.is_retryable(),
                "a copy got a final rejection: {}",
                response.summary()
            );
        }
    }
    for (response, times) in responses {
        explain(&format!("  {times:>2} × {response}"));
    }
    explain("The client sends it once more:");
    let last = demo.client.place(&key, &body).await?;
    print_response(&last);
    ids.insert(last.order_id()?);
    for &id in &ids {
        demo.record("20 copies in parallel", id);
    }
    ensure!(ids.len() == 1, "one key made {} orders", ids.len());
    explain("All copies belong to one order. A copy that arrives before the commit gets 409 with");
    explain("Retry-After. A copy that arrives after it gets the stored response.");
    Ok(())
}

async fn send_copies(demo: &Demo<'_>, key: &str, body: &str) -> anyhow::Result<Vec<ApiResponse>> {
    let mut copies = JoinSet::new();
    for _ in 0..COPIES {
        let (client, key, body) = (demo.client.clone(), key.to_owned(), body.to_owned());
        copies.spawn(async move { client.send(Some(&key), &body).await });
    }
    copies.join_all().await.into_iter().collect()
}
