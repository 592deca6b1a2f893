//! Chapter: the same request many times at once, before any of them is answered.

use std::collections::{BTreeMap, HashSet};

use anyhow::ensure;
use tokio::task::JoinSet;

use super::story::{Story, say};
use endpoints::client::{ApiResponse, new_key, order_body};

const COPIES: usize = 20;

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<()> {
    story.chapter("Twenty copies of one order, all at once");
    let (key, body) = (new_key("demo-parallel"), order_body(1));
    story.show_request(&key, &body);
    say(&format!(
        "… {COPIES} times in parallel. The first answers, before any retry:"
    ));
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    let mut ids = HashSet::new();
    for answer in send_copies(story, &key, &body).await? {
        *answers.entry(answer.summary()).or_default() += 1;
        if answer.is_accepted() {
            ids.insert(answer.order_id()?);
        } else {
            ensure!(
                answer.is_retryable(),
                "a copy was refused for good: {}",
                answer.summary()
            );
        }
    }
    for (answer, times) in answers {
        say(&format!("  {times:>2} × {answer}"));
    }
    let settled = story.send(&key, &body).await?;
    ids.insert(settled.order_id()?);
    for &id in &ids {
        story.remember("20 copies in parallel", id);
    }
    ensure!(ids.len() == 1, "{} orders came of one key", ids.len());
    say("One order came of it. A copy that meets the key in flight is told to come back (409);");
    say("one that comes after the commit gets the first one's answer.");
    Ok(())
}

async fn send_copies(story: &Story<'_>, key: &str, body: &str) -> anyhow::Result<Vec<ApiResponse>> {
    let mut copies = JoinSet::new();
    for _ in 0..COPIES {
        let (client, key, body) = (story.client.clone(), key.to_owned(), body.to_owned());
        copies.spawn(async move { client.send(Some(&key), &body).await });
    }
    copies.join_all().await.into_iter().collect()
}
