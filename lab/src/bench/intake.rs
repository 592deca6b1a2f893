//! `intake`: how fast the order service accepts orders while the services behind it are stopped, relative to
//! pgbench with the same SQL.

use std::cell::RefCell;
use std::sync::Arc;

use super::rig::closed_loop;
use super::steps::Bench;
use crate::generator::drive::DriveResult;

/// Steps of [`measure`].
pub(super) fn steps(pairs: usize) -> usize {
    2 * pairs + 3
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<(f64, f64)>> {
    let Bench {
        rig, scale, steps, ..
    } = *bench;
    steps.phase("intake");
    rig.set_back_pressure(false).await?;
    let stopped = rig.stop_consumers();
    steps.step("stopping the other services", stopped).await?;
    let waiting: RefCell<Vec<DriveResult>> = RefCell::default();
    let accept = async || {
        let plan = closed_loop(scale.clients, scale.intake());
        let driven = rig.send(plan, Arc::default()).await?;
        let per_s = driven.accepted_in_window as f64 / driven.window.as_secs_f64();
        waiting.borrow_mut().push(driven);
        Ok(per_s)
    };
    let pairs = bench
        .interleave(
            scale.pairs,
            ("accepting orders", accept),
            ("pgbench", async || bench.pgbench().await),
        )
        .await?;
    let started = rig.start_consumers();
    steps.step("starting the other services", started).await?;
    let arriving = async {
        for driven in waiting.take() {
            rig.arrive(driven).await?;
        }
        Ok(())
    };
    steps.step("shipping the orders", arriving).await?;
    rig.set_back_pressure(true).await?;
    Ok(pairs)
}
