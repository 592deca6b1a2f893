//! One principal's calls without an answer do not delay the orders of another.

use std::time::Duration;

use endpoints::Service;
use endpoints::client::{Client, new_key, order_body};
use futures_util::future::try_join_all;
use uuid::Uuid;

use crate::harness::{Harness, options};

/// Charges of the first principal, all of which hang.
const HANGING: usize = 1_000;
/// How many of them are placed in parallel.
const AT_ONCE: usize = 50;
const ORDINARY: usize = 20;
/// Longer than the test takes.
const HANG_MS: &str = "600000";
const LEASE_MS: &str = "900000";

async fn place(client: &Client, method: &str) -> anyhow::Result<Uuid> {
    let body = order_body(1).replace("pm_card_ok", method);
    client.place(&new_key("fair"), &body).await?.order_id()
}

async fn count(harness: &Harness, condition: &str) -> anyhow::Result<i64> {
    let sql = format!("select count(*) from payments where principal = 'acme' and {condition}");
    let count = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&harness.databases.payment);
    Ok(count.await?)
}

#[tokio::test]
async fn hanging_charges_of_one_principal_delay_no_other() -> anyhow::Result<()> {
    let mut options = options();
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    options.env.psp.push(set("PSP_SLOW_MS", HANG_MS));
    let payment = &mut options.env.payment;
    payment.push(set("PSP_TIMEOUT_MS", HANG_MS));
    payment.push(set("LEASE_MS", LEASE_MS));
    let harness = Harness::start(options).await?;
    let url = harness.system.url(Service::Order);
    let acme = Client::new(url, "demo-key-acme")?;
    let globex = Client::new(url, "demo-key-globex")?;
    for _ in 0..HANGING / AT_ONCE {
        try_join_all((0..AT_ONCE).map(|_| place(&acme, "pm_card_slow"))).await?;
    }
    testkit::eventually("the first charges hang", async || {
        count(&harness, "tries > 0")
            .await
            .is_ok_and(|called| called > 0)
    })
    .await;
    let ordinary = try_join_all((0..ORDINARY).map(|_| place(&globex, "pm_card_ok"))).await?;
    for order in &ordinary {
        let shipped = Duration::from_secs(60);
        globex.wait_for_status(*order, "shipped", shipped).await?;
    }
    // No call of the first principal has ended: each has its lease, and no attempt is settled.
    let called = count(&harness, "tries > 0").await?;
    let in_flight = count(&harness, "tries = 1 and lease_token is not null").await?;
    assert_eq!(called, in_flight, "a call has ended");
    assert!(called < HANGING as i64, "every call got a slot");
    harness.stop().await
}
