//! A typical incident: the provider is slow, every caller times out earlier and retries, and a spike of
//! other orders arrives.

use std::time::Duration;

use endpoints::Service;
use endpoints::client::{Client, new_key, order_body};
use futures_util::future::try_join_all;
use testkit::retrying_proxy::{RetryingProxy, Settings};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options, place_patiently};

/// How long a slow charge takes: longer than the test, which ends the wait by clearing the faults.
const SLOW_MS: &str = "600000";
const SLOW: usize = 40;
const ORDINARY: usize = 80;
/// As many as the payment service may open by default.
const CONNECTIONS_MAX: i64 = 16;

const IMPATIENT: Settings = Settings {
    timeout: Duration::from_millis(400),
    tries: 3,
};

async fn place(client: &Client, method: &str) -> anyhow::Result<Uuid> {
    let body = order_body(1).replace("pm_card_ok", method);
    let placed = place_patiently(client, &new_key("slow"), &body).await?;
    placed.order_id()
}

async fn charged(harness: &Harness, orders: &[Uuid]) -> anyhow::Result<usize> {
    let counts = endpoints::provider::charges_per_order(&harness.databases.psp, orders).await?;
    Ok(counts.values().filter(|count| **count > 0).count())
}

#[tokio::test]
async fn slow_provider_charges_once_and_delays_no_other_order() -> anyhow::Result<()> {
    let mut options = options();
    let slow_ms = ("PSP_SLOW_MS".to_owned(), SLOW_MS.to_owned());
    options.env.psp.push(slow_ms);
    let harness = Harness::start(options).await?;
    let order_url = harness.system.url(Service::Order);
    let proxy = RetryingProxy::start(order_url, IMPATIENT).await?;
    let client = Client::new(proxy.url(), "demo-key-acme")?;
    let slow = try_join_all((0..SLOW).map(|_| place(&client, "pm_card_slow"))).await?;
    let ordinary = try_join_all((0..ORDINARY).map(|_| place(&client, "pm_card_ok"))).await?;

    for order in &ordinary {
        harness
            .client
            .wait_for_status(*order, "shipped", SETTLE_TIMEOUT)
            .await?;
        let (open, in_transaction): (i64, i64) = sqlx::query_as(
            "select count(*), count(*) filter (where state like 'idle in transaction%'
                                               and state_change < now() - interval '1 second')
             from pg_stat_activity
             where datname = current_database() and application_name = 'payment'",
        )
        .fetch_one(&harness.databases.payment)
        .await?;
        assert!(open <= CONNECTIONS_MAX + 1, "{open} connections");
        assert_eq!(in_transaction, 0, "no connection may idle in a transaction");
        let ready = reqwest::get(format!("{}/readyz", harness.system.url(Service::Payment)));
        assert_eq!(ready.await?.status(), 200);
    }
    // All ordinary orders have shipped, on every partition, before any slow charge was made.
    assert_eq!(
        charged(&harness, &slow).await?,
        0,
        "no slow charge may be made yet"
    );

    // On a busy machine ordinary charges may be retried too.
    let retried = "select count(*) from payments
                   where tries > 2 and payment_method = 'pm_card_slow'";
    harness
        .wait_for_count(Service::Payment, retried, SLOW as i64)
        .await?;
    harness.clear_faults().await?;
    let all = [slow, ordinary].concat();
    harness.expect_shipped_once(&all).await?;
    harness.stop().await
}
