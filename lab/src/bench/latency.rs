//! `latency`: request to shipped at half of the saturation rate, relative to an idle system. Both are open loops:
//! the schedule is fixed, and a latency counts from the scheduled time.

use std::cell::RefCell;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::rig::{MIX_WITHOUT_HANGUPS, closed_loop};
use super::steps::Bench;
use crate::generator::drive::{Arrivals, Plan, StopAfter};
use crate::generator::tally::histogram;
use crate::measure::percentiles::Percentiles;

/// Request to shipped, over all pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) idle_rate_per_s: f64,
    pub(crate) idle: Percentiles,
    pub(crate) busy_rate_per_s: f64,
    pub(crate) busy: Percentiles,
    /// How late the generator sent while busy: must be far below the latencies.
    pub(crate) generator_late: Percentiles,
}

/// Steps of [`measure`].
pub(super) fn steps(pairs: usize) -> usize {
    2 * pairs
}

/// The rate that closed loops reach, for a run that does not measure `end_to_end`.
pub(super) async fn saturation(bench: &Bench<'_>) -> anyhow::Result<f64> {
    bench.steps.phase("saturation");
    let plan = closed_loop(bench.scale.clients, bench.scale.end_to_end());
    let shipped = bench.steps.step("shipping orders", bench.rig.run(plan));
    Ok(shipped.await?.arrived_per_s())
}

pub(super) async fn measure(
    bench: &Bench<'_>,
    saturation_per_s: f64,
) -> anyhow::Result<(Vec<(f64, f64)>, Latency)> {
    let scale = bench.scale;
    bench.steps.phase("latency");
    let busy_rate_per_s = saturation_per_s / 2.0;
    let open_loop = |rate_per_s, duration| Plan {
        arrivals: Arrivals::OpenLoop { rate_per_s },
        stop_after: StopAfter::Elapsed(duration),
        mix: MIX_WITHOUT_HANGUPS,
    };
    let collect = async |plan, all: &RefCell<Histogram<u64>>, late: &RefCell<Histogram<u64>>| {
        let run = bench.rig.run(plan).await?;
        all.borrow_mut().add(&run.shipped.took)?;
        late.borrow_mut().add(&run.driven.tally.lateness)?;
        anyhow::Ok(Percentiles::of(&run.shipped.took).p50_ms)
    };
    let (idle, busy) = (RefCell::new(histogram()?), RefCell::new(histogram()?));
    let (idle_late, busy_late) = (RefCell::new(histogram()?), RefCell::new(histogram()?));
    let idle_plan = open_loop(scale.idle_rate_per_s, scale.idle());
    let busy_plan = open_loop(busy_rate_per_s, scale.busy());
    let pairs = bench
        .interleave(
            scale.pairs,
            ("half of saturation", async || {
                collect(busy_plan, &busy, &busy_late).await
            }),
            ("idle", async || collect(idle_plan, &idle, &idle_late).await),
        )
        .await?;
    let latency = Latency {
        idle_rate_per_s: scale.idle_rate_per_s,
        idle: Percentiles::of(&idle.borrow()),
        busy_rate_per_s,
        busy: Percentiles::of(&busy.borrow()),
        generator_late: Percentiles::of(&busy_late.borrow()),
    };
    Ok((pairs, latency))
}
