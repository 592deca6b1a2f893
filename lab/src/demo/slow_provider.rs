//! Chapter: the PSP takes many seconds for some cards, a gateway in front gives up and retries, and
//! a burst of other orders comes in. The slow ones are charged once, the others do not notice.

use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use super::story::{API_KEY, SHIPPED_WITHIN, Story, say};
use super::{PSP_SLOW_MS, PSP_TIMEOUT_MS};
use endpoints::client::{Client, new_key, order_body};
use testkit::retrying_proxy::{RetryingProxy, Settings};

const SLOW: usize = 5;
const ORDINARY: usize = 20;
const GATEWAY: Settings = Settings {
    timeout: Duration::from_millis(500),
    tries: 3,
};

pub(super) async fn tell(story: &mut Story<'_>) -> anyhow::Result<()> {
    story.chapter("A slow provider, impatient callers, and everybody else");
    say(&format!(
        "For pm_card_slow the PSP takes {} s. Payment waits {} s at most, the gateway in front {} s,",
        PSP_SLOW_MS / 1_000,
        PSP_TIMEOUT_MS as f64 / 1_000.0,
        GATEWAY.timeout.as_secs_f64()
    ));
    say("and both send again. At the same time others order with cards that work:");
    let gateway = RetryingProxy::start(story.client.order_url(), GATEWAY).await?;
    let client = Client::new(gateway.url(), API_KEY)?;
    let slow = follow(&client, "pm_card_slow", SLOW);
    let ordinary = follow(&client, "pm_card_ok", ORDINARY);
    let (slow, ordinary) = tokio::try_join!(slow, ordinary)?;
    show("ordinary", &ordinary);
    show("slow", &slow);
    let slowest = ordinary.iter().map(|(_, took)| *took).max();
    let first_slow = slow.iter().map(|(_, took)| *took).min();
    ensure!(
        slowest < first_slow,
        "an ordinary order waited for a slow one"
    );
    let tries: i64 =
        sqlx::query_scalar("select coalesce(sum(tries), 0) from payments where order_id = any($1)")
            .bind(slow.iter().map(|(id, _)| *id).collect::<Vec<Uuid>>())
            .fetch_one(&story.payment)
            .await?;
    for (id, _) in slow.iter().take(1).chain(ordinary.iter().take(1)) {
        let count = story.show_charges(*id).await?;
        ensure!(count == 1, "charged {count} times");
    }
    say(&format!(
        "The PSP was asked {tries} times about the {SLOW} slow orders, always under the same keys."
    ));
    for (id, _) in slow {
        story.remember("slow card, retried", id);
    }
    Ok(())
}

/// Places orders and waits until they have shipped; how long each took.
async fn follow(
    client: &Client,
    method: &str,
    count: usize,
) -> anyhow::Result<Vec<(Uuid, Duration)>> {
    let body = order_body(1).replace("pm_card_ok", method);
    let mut orders = JoinSet::new();
    for _ in 0..count {
        let (client, body) = (client.clone(), body.clone());
        orders.spawn(async move {
            let started = Instant::now();
            let id = client
                .place(&new_key("demo-slow"), &body)
                .await?
                .order_id()?;
            client
                .wait_for_status(id, "shipped", SHIPPED_WITHIN)
                .await?;
            anyhow::Ok((id, started.elapsed()))
        });
    }
    let mut took = orders
        .join_all()
        .await
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    took.sort_by_key(|(_, took)| *took);
    Ok(took)
}

fn show(what: &str, took: &[(Uuid, Duration)]) {
    let seconds = |index: usize| took.get(index).map_or(0.0, |(_, it)| it.as_secs_f64());
    let (median, last) = (seconds(took.len() / 2), seconds(took.len() - 1));
    say(&format!(
        "  {:>3} {what:<9} shipped after {median:>5.1} s (median), {last:>5.1} s (slowest)",
        took.len()
    ));
}
