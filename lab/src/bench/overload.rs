//! A closed loop with more clients than the system can serve: does it ship what it accepts, or fall behind?

use serde::{Deserialize, Serialize};

use super::rig::closed_loop;
use super::steps::Bench;
use crate::measure::percentiles::Percentiles;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Overload {
    pub(crate) clients: usize,
    /// While the clients were sending.
    pub(crate) accepted_per_s: f64,
    pub(crate) shipped_per_s: f64,
    /// Accepted and not shipped when the clients stopped.
    pub(crate) behind: u64,
    /// Responses with 429 or 5xx: the client tried again.
    pub(crate) unavailable: u64,
    pub(crate) response: Percentiles,
    pub(crate) request_to_shipped: Percentiles,
    pub(crate) request_to_receipt: Percentiles,
}

/// Steps of [`measure`].
pub(super) const STEPS: usize = 1;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Overload> {
    let clients = bench.scale.overload_clients;
    bench.steps.phase("overload");
    let plan = closed_loop(clients, bench.scale.end_to_end());
    let run = bench.rig.run(plan);
    let run = bench.steps.step("shipping orders", run).await?;
    let window_s = run.driven.window.as_secs_f64();
    let ended_unix_us = run.shipped.first_due_unix_us + run.driven.window.as_micros() as i64;
    let times = run.shipped.times.iter();
    let shipped = times.filter(|times| times.reached_unix_us <= ended_unix_us);
    let shipped = shipped.count() as u64;
    let accepted = run.driven.accepted_in_window;
    Ok(Overload {
        clients,
        accepted_per_s: accepted as f64 / window_s,
        shipped_per_s: shipped as f64 / window_s,
        behind: accepted.saturating_sub(shipped),
        unavailable: run.driven.tally.counts.unavailable,
        response: Percentiles::of(&run.driven.tally.responses),
        request_to_shipped: Percentiles::of(&run.shipped.took),
        request_to_receipt: Percentiles::of(&run.mailed.took),
    })
}
