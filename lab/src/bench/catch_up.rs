//! `catch_up`: payment is killed under load and stays down until a backlog has built up. How long the backlog takes
//! after payment starts again, relative to the same backlog at the rate of a drain that no kill preceded.
//!
//! The backlog consists of the orders that were sent after the kill. Orders that payment was working on when it
//! died wait for their leases, and are counted separately.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::Utc;
use endpoints::Service;
use serde::{Deserialize, Serialize};

use super::rig::{MIX_WITHOUT_HANGUPS, Rig, Run};
use super::scale::Scale;
use super::steps::Bench;
use crate::generator::drive::{Arrivals, Plan, StopAfter};
use crate::measure::shipping::Times;

const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The share of a run's orders that are accepted before the kill.
const BEFORE_KILL: u64 = 10;

/// One kill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CatchUp {
    /// Orders that were sent after the kill.
    pub(crate) backlog: u64,
    /// From the start of payment until the last of them had shipped.
    pub(crate) seconds: f64,
    /// From the start of payment until the first of them had shipped.
    pub(crate) first_after_s: f64,
    /// Orders sent before the kill that shipped after payment started again, and when the last one did.
    pub(crate) in_flight: u64,
    pub(crate) in_flight_last_s: f64,
    /// Orders per second of the drain without a kill.
    pub(crate) drain_per_s: f64,
}

/// Steps of [`measure`].
pub(super) fn steps(pairs: usize) -> usize {
    2 * pairs
}

/// Seconds after a kill with the seconds that the backlog takes at drain rate.
pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<(Vec<(f64, f64)>, Vec<CatchUp>)> {
    bench.steps.phase("catch-up");
    bench.rig.set_back_pressure(false).await?;
    let kills: RefCell<Vec<CatchUp>> = RefCell::default();
    let kill = async || {
        let after = after_kill(bench).await?;
        let seconds = after.seconds;
        kills.borrow_mut().push(after);
        Ok(seconds)
    };
    let pairs = bench
        .interleave(
            bench.scale.catch_up_pairs,
            ("draining after a kill", kill),
            ("draining after a stop", async || drain_rate(bench).await),
        )
        .await?;
    bench.rig.set_back_pressure(true).await?;
    let mut kills = kills.take();
    let mut ratios = Vec::new();
    for (kill, (seconds, drain_per_s)) in kills.iter_mut().zip(pairs) {
        kill.drain_per_s = drain_per_s;
        ratios.push((seconds, kill.backlog as f64 / drain_per_s));
    }
    Ok((ratios, kills))
}

/// Orders per second, from the first shipment to the last, of a backlog that built up while payment was stopped.
async fn drain_rate(bench: &Bench<'_>) -> anyhow::Result<f64> {
    let (system, rig) = (bench.rig.system(), bench.rig);
    system.stop_service(Service::Payment.name()).await?;
    let driven = rig.send(backlog(bench.scale), Arc::default()).await?;
    start_payment(rig).await?;
    let shipped = rig.arrive(driven).await?.shipped;
    let seconds = (shipped.last_unix_us - shipped.first_unix_us).max(1) as f64 / 1e6;
    Ok(shipped.orders as f64 / seconds)
}

async fn after_kill(bench: &Bench<'_>) -> anyhow::Result<CatchUp> {
    let rig = bench.rig;
    let plan = backlog(bench.scale);
    let accepted = Arc::new(AtomicU64::new(0));
    let kill_at = (bench.scale.backlog_orders / BEFORE_KILL).max(1);
    let kill = async {
        while accepted.load(Ordering::Relaxed) < kill_at {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        rig.system().kill(Service::Payment.name()).await?;
        anyhow::Ok(Utc::now().timestamp_micros())
    };
    let (driven, killed_unix_us) = tokio::try_join!(rig.send(plan, Arc::clone(&accepted)), kill)?;
    let started_unix_us = Utc::now().timestamp_micros();
    start_payment(rig).await?;
    let run = rig.arrive(driven).await?;
    Ok(CatchUp::of(&run, killed_unix_us, started_unix_us))
}

/// The clock of the catch-up runs from the start of the process, so this does not wait until it is ready.
async fn start_payment(rig: &Rig) -> anyhow::Result<()> {
    rig.system().start_service(Service::Payment.name()).await
}

fn backlog(scale: &Scale) -> Plan {
    Plan {
        arrivals: Arrivals::ClosedLoop {
            clients: scale.clients,
        },
        stop_after: StopAfter::Accepted(scale.backlog_orders),
        mix: MIX_WITHOUT_HANGUPS,
    }
}

impl CatchUp {
    fn of(run: &Run, killed_unix_us: i64, started_unix_us: i64) -> Self {
        let after_start_s =
            |unix_us: Option<i64>| unix_us.map_or(0.0, |it| (it - started_unix_us) as f64 / 1e6);
        let times = &run.shipped.times;
        let (after, before): (Vec<Times>, Vec<Times>) = times
            .iter()
            .copied()
            .partition(|times| times.due_unix_us >= killed_unix_us);
        let shipped = || after.iter().map(|times| times.reached_unix_us);
        let in_flight = || {
            let late = before.iter().map(|times| times.reached_unix_us);
            late.filter(|at| *at >= started_unix_us)
        };
        Self {
            backlog: after.len() as u64,
            seconds: after_start_s(shipped().max()),
            first_after_s: after_start_s(shipped().min()),
            in_flight: in_flight().count() as u64,
            in_flight_last_s: after_start_s(in_flight().max()),
            drain_per_s: 0.0,
        }
    }
}
