//! Chapter: the provider takes many seconds for some cards, a proxy in front of the order service
//! retries, and other orders arrive. The slow orders are charged once, and the others are not delayed.

use std::time::Duration;

use anyhow::ensure;
use endpoints::client::{Client, new_key, order_body};
use testkit::retrying_proxy::{RetryingProxy, Settings};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use super::context::{API_KEY, Demo, SHIPPED_WITHIN, explain};
use super::{PSP_SLOW_MS, PSP_TIMEOUT_MS};

const SLOW_ORDERS: usize = 5;
const NORMAL_ORDERS: usize = 20;
const PROXY: Settings = Settings {
    timeout: Duration::from_millis(500),
    tries: 3,
};

pub(super) async fn run(demo: &mut Demo<'_>) -> anyhow::Result<()> {
    demo.chapter("The provider is slow, callers time out and retry, other orders are not delayed");
    explain(&format!(
        "For the card pm_card_slow the provider takes {} s. Payment times out after {} s and retries.",
        PSP_SLOW_MS / 1_000,
        PSP_TIMEOUT_MS as f64 / 1_000.0,
    ));
    explain(&format!(
        "A proxy in front of the order service also times out, after {} s, and retries.",
        PROXY.timeout.as_secs_f64()
    ));
    explain(&format!(
        "{SLOW_ORDERS} orders with slow cards and {NORMAL_ORDERS} with normal cards are sent at the same time:"
    ));
    let proxy = RetryingProxy::start(demo.client.order_url(), PROXY).await?;
    let client = Client::new(proxy.url(), API_KEY)?;
    let slow = place_and_wait(&client, "pm_card_slow", SLOW_ORDERS);
    let normal = place_and_wait(&client, "pm_card_ok", NORMAL_ORDERS);
    let (slow, normal) = tokio::try_join!(slow, normal)?;
    print_times("normal", &normal);
    print_times("slow", &slow);
    let last_normal = normal.iter().map(|(_, took)| *took).max();
    let first_slow = slow.iter().map(|(_, took)| *took).min();
    ensure!(
        last_normal < first_slow,
        "a normal order waited for a slow one"
    );
    let tries: i64 =
        sqlx::query_scalar("select coalesce(sum(tries), 0) from payments where order_id = any($1)")
            .bind(slow.iter().map(|(id, _)| *id).collect::<Vec<Uuid>>())
            .fetch_one(&demo.payment)
            .await?;
    explain(&format!(
        "Payment called the provider {tries} times for the {SLOW_ORDERS} slow orders, always with the same key per"
    ));
    explain("order. One slow and one normal order in the provider's database:");
    for (id, _) in slow.iter().take(1).chain(normal.iter().take(1)) {
        let count = demo.print_charges(*id).await?;
        ensure!(count == 1, "charged {count} times");
    }
    for (id, _) in slow {
        demo.record("slow card, retried", id);
    }
    Ok(())
}

/// Places orders and waits until they have shipped. Returns how long each took, sorted.
async fn place_and_wait(
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

fn print_times(kind: &str, took: &[(Uuid, Duration)]) {
    let seconds = |index: usize| took.get(index).map_or(0.0, |(_, it)| it.as_secs_f64());
    let (median, last) = (seconds(took.len() / 2), seconds(took.len() - 1));
    explain(&format!(
        "  {:>3} {kind:<7} shipped after {median:>5.1} s (median), {last:>5.1} s (slowest)",
        took.len()
    ));
}
