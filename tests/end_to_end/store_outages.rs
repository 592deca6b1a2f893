//! The store goes while orders stream in, and comes back. Nobody restarts a service for it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::Service;
use sqlx::{Connection as _, PgConnection};
use testkit::postgres::PROCESS_NAME;
use testkit::system::Postgres;

use crate::harness::{Harness, options};

const ROUNDS: u32 = 4;
const ORDERS_PER_ROUND: usize = 30;
/// Longest time from a blow to every service being ready again.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The services' process ids: a service that died of the outage has another one afterwards.
fn services(harness: &Harness) -> BTreeMap<String, u32> {
    let mut pids: BTreeMap<_, _> = harness.system.pids().into_iter().collect();
    pids.remove(PROCESS_NAME);
    pids
}

/// Places orders in bursts, with a blow somewhere in the middle of each, at another moment each time.
async fn under_blows(
    harness: &Harness,
    mut blow: impl AsyncFnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let before = services(harness);
    let mut orders = Vec::new();
    for round in 0..ROUNDS {
        all_ready(harness).await?;
        let (placed, hit) = tokio::join!(harness.place_many(ORDERS_PER_ROUND), async {
            tokio::time::sleep(Duration::from_millis(10) + round * Duration::from_millis(40)).await;
            blow().await
        });
        hit?;
        orders.extend(placed?);
    }
    harness.expect_shipped_once(&orders).await?;
    assert_eq!(
        services(harness),
        before,
        "a service did not live through it"
    );
    all_ready(harness).await
}

/// The store is back, for everybody: a blow hits what stands.
async fn all_ready(harness: &Harness) -> anyhow::Result<()> {
    for service in Service::ALL {
        let ready = harness.system.wait_ready(service.name(), READY_TIMEOUT);
        ready.await?;
    }
    Ok(())
}

#[tokio::test]
async fn postgres_killed_again_and_again_loses_and_doubles_nothing() -> anyhow::Result<()> {
    let mut options = options();
    // Its own: the one that tests share serves the others.
    options.postgres = Postgres::Private;
    let harness = Harness::start(options).await?;
    under_blows(&harness, async || harness.system.kill(PROCESS_NAME).await).await?;
    assert!(harness.system.restarts(PROCESS_NAME) >= ROUNDS);
    harness.stop().await
}

#[tokio::test]
async fn sessions_ended_again_and_again_lose_and_double_nothing() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let mut outside = PgConnection::connect(harness.system.database_url(Service::Order)).await?;
    let databases = Service::ALL.map(|service| {
        let url = harness.system.database_url(service);
        url.rsplit('/').next().unwrap_or_default().to_owned()
    });
    let mut ended = 0;
    under_blows(&harness, async || {
        ended += end_sessions(&mut outside, &databases).await?;
        Ok(())
    })
    .await?;
    // Each service has a relay's session at the least, the provider one that answers.
    ensure!(
        ended > u64::from(ROUNDS),
        "only {ended} sessions were ended"
    );
    harness.stop().await
}

/// Ends every session of the services, not those of the test.
async fn end_sessions(outside: &mut PgConnection, databases: &[String]) -> anyhow::Result<u64> {
    let services = Service::ALL.map(Service::name);
    let ended = sqlx::query(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = any($1) and application_name = any($2)",
    )
    .bind(databases)
    .bind(services.as_slice())
    .execute(outside)
    .await
    .context("ending the sessions")?;
    Ok(ended.rows_affected())
}
