//! Pauses the broker again and again under load. After each pause every order must ship.
//!
//! One of the long tests: `scripts/test.sh --long`. `BROKER_PAUSES` changes the number of pauses.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::client::{new_key, order_body};
use endpoints::{PerService, Service};
use rustix::process::{Pid, Signal, kill_process};
use testkit::broker::{self, Kafka};
use testkit::system::SystemOptions;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use crate::harness::Harness;

const PAUSES_DEFAULT: usize = 50;
/// Every so many pauses is long: sessions and requests time out during it, and clients reconnect.
const LONG_EVERY: usize = 4;
const LONG_SECONDS: (u64, u64) = (50, 65);
const SHORT_SECONDS: (u64, u64) = (1, 25);
/// Every so many pauses one service is killed while the broker is paused.
const KILL_EVERY: usize = 5;
/// Orders placed before each pause, and again after it.
const ORDERS: usize = 10;
/// Pause between two orders that are placed while the broker is paused.
const ORDER_INTERVAL: Duration = Duration::from_millis(500);
/// A consumer group must work again within this time after a pause. It is longer than the limit after
/// which a consumer starts a new client.
const HEALED_WITHIN: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(100);

/// A paused broker. Dropping this resumes it, also if the test fails.
struct Paused(Pid);

impl Paused {
    fn new(harness: &Harness) -> anyhow::Result<Self> {
        let pid = harness.system.pid(broker::PROCESS_NAME);
        let pid = pid.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let pid = pid.context("the broker does not run")?;
        kill_process(pid, Signal::STOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        // Fails only if the broker is gone, which fails the test.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

fn random(range: (u64, u64)) -> u64 {
    let (low, high) = range;
    low + (Uuid::new_v4().as_u128() % u128::from(high - low + 1)) as u64
}

async fn unshipped(harness: &Harness) -> anyhow::Result<i64> {
    let count = "select count(*) from orders where status <> 'shipped'";
    let count = sqlx::query_scalar(count).fetch_one(&harness.databases.order);
    Ok(count.await?)
}

/// Waits until all orders are shipped; returns how long it took.
async fn wait_until_shipped(harness: &Harness) -> anyhow::Result<Duration> {
    let resumed = Instant::now();
    loop {
        let left = unshipped(harness).await?;
        if left == 0 {
            return Ok(resumed.elapsed());
        }
        ensure!(
            resumed.elapsed() < HEALED_WITHIN,
            "{left} orders are not shipped {HEALED_WITHIN:?} after the pause; logs: {:?}",
            harness.system.endpoints().state_dir
        );
        sleep(POLL).await;
    }
}

/// Pauses the broker for this time, with orders and perhaps a killed service in between. Orders that get no final
/// response in that time are sent again after it: the order service sheds new orders while others wait too long.
async fn pause(harness: &Harness, length: Duration, victim: Option<&str>) -> anyhow::Result<()> {
    let paused = Paused::new(harness)?;
    let until = Instant::now() + length;
    if let Some(victim) = victim {
        harness.system.kill(victim).await?;
    }
    let body = order_body(2);
    let mut open_keys = Vec::new();
    while Instant::now() < until {
        let key = new_key("pause");
        match timeout_at(until, harness.place_with(&key, &body)).await {
            Ok(placed) => drop(placed?),
            Err(_) => open_keys.push(key),
        }
        sleep(ORDER_INTERVAL).await;
    }
    drop(paused);
    for key in open_keys {
        harness.place_with(&key, &body).await?;
    }
    Ok(())
}

/// Starts a system and pauses its broker this many times. `name` tells the systems apart in the output.
#[expect(
    clippy::print_stderr,
    reason = "the output of the long tests says how long each recovery took"
)]
async fn survive_pauses(name: &str, pauses: usize) -> anyhow::Result<()> {
    let mut options = SystemOptions::for_test();
    options.kafka = Kafka::Apache;
    options.replicas = PerService::from_fn(|service| if service.uses_kafka() { 2 } else { 1 });
    let harness = Harness::start(options).await?;
    harness.place_many(ORDERS).await?;
    wait_until_shipped(&harness).await?;
    let victims = [Service::Payment, Service::Fulfilment, Service::Receipt];
    for number in 1..=pauses {
        let is_long = number % LONG_EVERY == 0;
        let seconds = random(if is_long { LONG_SECONDS } else { SHORT_SECONDS });
        let victim = victims[number % victims.len()].name();
        let victim = number.is_multiple_of(KILL_EVERY).then_some(victim);
        harness.place_many(ORDERS).await?;
        pause(&harness, Duration::from_secs(seconds), victim).await?;
        harness.place_many(ORDERS).await?;
        let healed = wait_until_shipped(&harness).await?;
        eprintln!(
            "{name} system, pause {number} of {pauses}: {seconds} s, victim {victim:?}, shipped after {healed:?}"
        );
    }
    harness.expect_settled().await?;
    harness.stop().await
}

/// Two systems run at the same time and share the pauses, because each mostly waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_order_ships_after_each_broker_pause() -> anyhow::Result<()> {
    let pauses: usize = match std::env::var("BROKER_PAUSES") {
        Ok(pauses) => pauses.parse().context("BROKER_PAUSES is not a number")?,
        Err(_) => PAUSES_DEFAULT,
    };
    let second = pauses / 2;
    tokio::try_join!(
        survive_pauses("first", pauses - second),
        survive_pauses("second", second)
    )?;
    Ok(())
}
