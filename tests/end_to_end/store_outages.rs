//! Postgres fails under load and returns. No service may need a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::Service;
use sqlx::{Connection as _, PgConnection};
use testkit::postgres::PROCESS_NAME;
use testkit::system::Postgres;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

const ROUNDS: u32 = 4;
const ORDERS_PER_ROUND: usize = 30;

/// The services' process ids. A service that died in the outage has a new one.
fn services(harness: &Harness) -> BTreeMap<String, u32> {
    let mut pids: BTreeMap<_, _> = harness.system.pids().into_iter().collect();
    pids.remove(PROCESS_NAME);
    pids
}

/// Places orders in bursts, with an outage in the middle of each, at a different moment each time.
async fn with_outages(
    harness: &Harness,
    mut outage: impl AsyncFnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let before = services(harness);
    let mut orders = Vec::new();
    for round in 0..ROUNDS {
        all_ready(harness).await?;
        let (placed, hit) = tokio::join!(harness.place_many(ORDERS_PER_ROUND), async {
            tokio::time::sleep(Duration::from_millis(10) + round * Duration::from_millis(40)).await;
            outage().await
        });
        hit?;
        orders.extend(placed?);
    }
    harness.expect_shipped_once(&orders).await?;
    assert_eq!(
        services(harness),
        before,
        "a service did not survive the outages"
    );
    all_ready(harness).await
}

/// Waits until every service is ready, so that the next outage hits a working system.
async fn all_ready(harness: &Harness) -> anyhow::Result<()> {
    for service in Service::ALL {
        let ready = harness.system.wait_ready(service.name(), SETTLE_TIMEOUT);
        ready.await?;
    }
    Ok(())
}

#[tokio::test]
async fn killing_postgres_repeatedly_loses_and_duplicates_nothing() -> anyhow::Result<()> {
    let mut options = options();
    // A private server: other tests use the shared one.
    options.postgres = Postgres::Private;
    let harness = Harness::start(options).await?;
    with_outages(&harness, async || harness.system.kill(PROCESS_NAME).await).await?;
    assert!(harness.system.restarts(PROCESS_NAME) >= ROUNDS);
    harness.stop().await
}

#[tokio::test]
async fn ending_sessions_repeatedly_loses_and_duplicates_nothing() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let mut outside = PgConnection::connect(harness.system.database_url(Service::Order)).await?;
    let databases = Service::ALL.map(|service| {
        let url = harness.system.database_url(service);
        url.rsplit('/').next().unwrap_or_default().to_owned()
    });
    let mut ended = 0;
    with_outages(&harness, async || {
        ended += end_sessions(&mut outside, &databases).await?;
        Ok(())
    })
    .await?;
    // Each service has at least one session.
    ensure!(
        ended > u64::from(ROUNDS),
        "only {ended} sessions were ended"
    );
    harness.stop().await
}

/// Ends every session of the services, but not those of the test.
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
