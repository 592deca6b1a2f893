//! One principal's calls without an answer do not delay the orders of another.

use endpoints::Service;
use endpoints::client::{Client, new_key, order_body};
use futures_util::future::try_join_all;
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options, place_patiently};

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
    let placed = place_patiently(client, &new_key("fair"), &body).await?;
    placed.order_id()
}

/// How many attempts of the first principal were called, and how many of these calls have not ended. In one
/// statement: the charger may start more calls at any time.
async fn calls(harness: &Harness) -> anyhow::Result<(i64, i64)> {
    let count = "select count(*), count(*) filter (where tries = 1 and lease_token is not null)
                 from payments where principal = 'acme' and tries > 0";
    let count = sqlx::query_as(count).fetch_one(&harness.databases.payment);
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
        calls(&harness).await.is_ok_and(|(called, _)| called > 0)
    })
    .await;
    let ordinary = try_join_all((0..ORDINARY).map(|_| place(&globex, "pm_card_ok"))).await?;
    for order in &ordinary {
        let shipped = globex.wait_for_status(*order, "shipped", SETTLE_TIMEOUT);
        shipped.await?;
    }
    // No call of the first principal has ended: each has its lease, and no attempt is settled.
    let (called, in_flight) = calls(&harness).await?;
    assert_eq!(called, in_flight, "a call has ended");
    assert!(called < HANGING as i64, "every call got a slot");
    harness.stop().await
}
