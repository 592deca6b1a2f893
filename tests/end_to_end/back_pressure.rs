//! Orders that the system cannot work off are shed. What it accepted ships, with one charge each.

use anyhow::{Context as _, ensure};
use endpoints::Service;
use endpoints::client::{new_key, order_body};

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

const WAIT_MAX_SECONDS: &str = "2";
/// Clients that place orders at the same time.
const CLIENTS: usize = 8;

/// Places orders until one is shed. Returns the accepted ones.
async fn place_until_shed(harness: &Harness) -> anyhow::Result<Vec<uuid::Uuid>> {
    let mut accepted = Vec::new();
    let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
    while tokio::time::Instant::now() < deadline {
        let response = harness
            .client
            .send(Some(&new_key("wait")), &order_body(1))
            .await?;
        match response.status {
            201 => accepted.push(response.order_id()?),
            503 => return Ok(accepted),
            other => anyhow::bail!("POST /orders returned {other}"),
        }
    }
    anyhow::bail!("{} orders were accepted", accepted.len())
}

#[tokio::test]
async fn orders_are_shed_while_payment_is_down() -> anyhow::Result<()> {
    let mut options = options();
    let wait_max = ("ORDER_WAIT_MAX_SECONDS", WAIT_MAX_SECONDS);
    let wait_max = (wait_max.0.to_owned(), wait_max.1.to_owned());
    options.env.order.push(wait_max);
    let harness = Harness::start(options).await?;
    let (key, body) = (new_key("first"), order_body(1));
    let first = harness.place_with(&key, &body).await?;
    harness.expect_shipped_once(&[first]).await?;

    harness.system.stop_service("payment").await?;
    let clients = (0..CLIENTS).map(|_| place_until_shed(&harness));
    let accepted = futures_util::future::try_join_all(clients).await?;
    let mut accepted = accepted.concat();
    ensure!(!accepted.is_empty(), "the first order is not shed");
    let replay = harness.client.send(Some(&key), &body).await?;
    ensure!(replay.status == 201 && replay.order_id()? == first);
    let order = harness.client.order(first).await?;
    ensure!(order.status == "shipped");

    // Orders are accepted again once payment works the others off.
    harness.system.start_service("payment").await?;
    accepted.push(harness.place().await.context("placing another order")?);
    accepted.push(first);
    harness.expect_shipped_once(&accepted).await?;
    let (orders, charges): (i64, i64) = {
        let orders = sqlx::query_scalar("select count(*) from orders");
        let charges = sqlx::query_scalar("select count(*) from charges");
        (
            orders.fetch_one(&harness.databases.order).await?,
            charges.fetch_one(&harness.databases.psp).await?,
        )
    };
    ensure!(orders == accepted.len() as i64 && charges == orders);
    let metrics = format!("{}/metrics", harness.system.url(Service::Order));
    let metrics = reqwest::get(metrics).await?.text().await?;
    let mut shed = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("orders_shed_total "));
    let shed: f64 = shed.next().context("no metric")?.parse()?;
    ensure!(shed >= CLIENTS as f64, "{shed} shed");
    harness.expect_settled().await?;
    harness.stop().await
}
