//! `end_to_end`: orders that shipped and got their receipt, relative to pgbench with the intake SQL. Also what
//! each order cost.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use super::costs::Costs;
use super::per_order::{self, PerOrder};
use super::rig::{Run, closed_loop};
use super::spread::Spread;
use super::steps::Bench;
use crate::generator::tally::histogram;
use crate::measure::percentiles::Percentiles;

/// What the closed loops showed besides the ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) accepted_per_s: Spread,
    /// From the first request to the last shipment.
    pub(crate) shipped_per_s: Spread,
    /// From the first request to the last mail.
    pub(crate) receipts_per_s: Spread,
    pub(crate) response: Percentiles,
    pub(crate) request_to_shipped: Percentiles,
}

pub(super) struct EndToEnd {
    pub(super) pairs: Vec<(f64, f64)>,
    pub(super) throughput: Option<Throughput>,
    pub(super) per_order: Option<PerOrder>,
}

/// Steps of [`measure`].
pub(super) fn steps(pairs: usize) -> usize {
    2 * pairs
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<EndToEnd> {
    let Bench { rig, scale, .. } = *bench;
    bench.steps.phase("end to end");
    let sizes_before = per_order::sizes(rig).await?;
    let runs: RefCell<Vec<(Run, Costs)>> = RefCell::default();
    let ship = async || {
        let before = Costs::read(rig).await?;
        let plan = closed_loop(scale.clients, scale.end_to_end());
        let run = rig.run(plan).await?;
        let costs = Costs::read(rig).await?.since(&before);
        let per_s = run.arrived_per_s();
        runs.borrow_mut().push((run, costs));
        Ok(per_s)
    };
    let pairs = bench
        .interleave(
            scale.pairs,
            ("shipping orders", ship),
            ("pgbench", async || bench.pgbench().await),
        )
        .await?;
    let runs = runs.take();
    let sizes = per_order::sizes(rig).await?.since(&sizes_before);
    let costs: Vec<(u64, &Costs)> = runs
        .iter()
        .map(|(run, costs)| (run.shipped.orders, costs))
        .collect();
    Ok(EndToEnd {
        pairs,
        throughput: throughput(&runs)?,
        per_order: PerOrder::of(&costs, &sizes),
    })
}

impl Run {
    /// Orders per second, from the first request to the last shipment or mail, whichever is later.
    pub(super) fn arrived_per_s(&self) -> f64 {
        self.shipped.per_s().min(self.mailed.per_s())
    }
}

fn throughput(runs: &[(Run, Costs)]) -> anyhow::Result<Option<Throughput>> {
    let (mut response, mut shipped) = (histogram()?, histogram()?);
    for (run, _) in runs {
        response.add(&run.driven.tally.responses)?;
        shipped.add(&run.shipped.took)?;
    }
    let of = |figure: fn(&Run) -> f64| Spread::of(runs.iter().map(|(run, _)| figure(run)));
    let accepted = of(|run| run.driven.accepted_in_window as f64 / run.driven.window.as_secs_f64());
    let (Some(accepted_per_s), Some(shipped_per_s), Some(receipts_per_s)) = (
        accepted,
        of(|run| run.shipped.per_s()),
        of(|run| run.mailed.per_s()),
    ) else {
        return Ok(None);
    };
    Ok(Some(Throughput {
        accepted_per_s,
        shipped_per_s,
        receipts_per_s,
        response: Percentiles::of(&response),
        request_to_shipped: Percentiles::of(&shipped),
    }))
}
