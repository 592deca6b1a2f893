//! Runs the measurements one after the other and collects the report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chrono::Utc;
use tokio::time::Instant;

use super::machine::Machine;
use super::ratio::Ratio;
use super::report::Report;
use super::rig::{Rig, closed_loop};
use super::scale::Scale;
use super::steps::{Bench, Steps};
use super::{Args, catch_up, end_to_end, intake, latency, overload, price, relay};
use crate::measure::pgbench::IntakeSql;

const NOT_SELECTED: &str = "not selected";

/// `unprotected` is the directory of the unprotected services, or why there is none.
pub(super) async fn measure(
    rig: &Rig,
    args: &Args,
    unprotected: &anyhow::Result<PathBuf>,
) -> anyhow::Result<Report> {
    let scale = args.scale();
    let steps = Steps::new(count_steps(args, &scale, unprotected.is_ok()), false);
    let intake_sql = IntakeSql::prepare(rig.order_url()).await?;
    let bench = Bench {
        rig,
        scale: &scale,
        intake_sql: &intake_sql,
        steps: &steps,
    };
    let mut report = empty(rig, args, &scale).await?;
    if let Err(error) = unprotected {
        let missing = report.absent.entry(Ratio::Price);
        missing.or_insert_with(|| format!("{error:#}"));
    }
    let started = Instant::now();
    tokio::select! {
        measured = measure_all(&bench, args, unprotected.as_deref().ok(), &mut report) => measured?,
        () = steps.memory.sample(rig) => {}
    }
    report.orders += rig.check_books().await?;
    report.seconds = started.elapsed().as_secs_f64().round();
    // The scratch databases end with the private Postgres. To drop one here would cost a checkpoint.
    report.memory = steps.memory.take();
    Ok(report)
}

async fn measure_all(
    bench: &Bench<'_>,
    args: &Args,
    unprotected: Option<&Path>,
    report: &mut Report,
) -> anyhow::Result<()> {
    warm_up(bench).await?;
    let mut saturation = None;
    if args.measures(Ratio::EndToEnd) {
        let measured = end_to_end::measure(bench).await?;
        report.throughput = measured.throughput;
        report.per_order = measured.per_order;
        report.add(Ratio::EndToEnd, &measured.pairs);
        let ratio = report.ratios.get(&Ratio::EndToEnd);
        saturation = ratio.map(|ratio| median(&ratio.measured));
    }
    if args.measures(Ratio::Latency) {
        let saturation = match saturation {
            Some(per_s) => per_s,
            None => latency::saturation(bench).await?,
        };
        let (pairs, details) = latency::measure(bench, saturation).await?;
        report.add(Ratio::Latency, &pairs);
        report.latency = Some(details);
    }
    if args.measures(Ratio::EndToEnd) {
        report.overload = Some(overload::measure(bench).await?);
    }
    if args.measures(Ratio::Relay) {
        report.add(Ratio::Relay, &relay::measure(bench).await?);
    }
    if args.measures(Ratio::CatchUp) {
        let (pairs, kills) = catch_up::measure(bench).await?;
        report.add(Ratio::CatchUp, &pairs);
        report.catch_up = kills;
    }
    if args.measures(Ratio::Intake) {
        report.add(Ratio::Intake, &intake::measure(bench).await?);
    }
    // The last: it stops services that the others need.
    if args.measures(Ratio::Price)
        && let Some(unprotected) = unprotected
    {
        let measured = price::measure(bench, unprotected).await?;
        report.add(Ratio::Price, &measured.pairs);
        report.orders += measured.orders;
    }
    Ok(())
}

/// Fills caches, connections and the compiled code of the broker.
async fn warm_up(bench: &Bench<'_>) -> anyhow::Result<()> {
    let Bench {
        rig, scale, steps, ..
    } = *bench;
    if scale.warm_up_s == 0 {
        return Ok(());
    }
    steps.phase("warm-up");
    let orders = rig.run(closed_loop(scale.clients, scale.warm_up()));
    steps.step("shipping orders", orders).await?;
    let sql = bench.intake_sql;
    let pids = rig.pids();
    let pgbench = sql.run(&pids, scale.clients, scale.warm_up_s);
    steps.step("pgbench", pgbench).await?;
    Ok(())
}

fn count_steps(args: &Args, scale: &Scale, has_unprotected: bool) -> usize {
    let warm_up = if scale.warm_up_s == 0 { 0 } else { 2 };
    let selected = Ratio::ALL.into_iter().filter(|ratio| args.measures(*ratio));
    let steps = selected.map(|ratio| match ratio {
        Ratio::Intake => intake::steps(scale.pairs),
        Ratio::Relay => relay::steps(scale.pairs),
        Ratio::EndToEnd => end_to_end::steps(scale.pairs) + overload::STEPS,
        // Without the closed loops of `end_to_end` it needs its own closed loop.
        Ratio::Latency => {
            latency::steps(scale.pairs) + usize::from(!args.measures(Ratio::EndToEnd))
        }
        Ratio::CatchUp => catch_up::steps(scale.catch_up_pairs),
        Ratio::Price if has_unprotected => price::steps(scale.pairs, warm_up > 0),
        Ratio::Price => 0,
    });
    warm_up + steps.sum::<usize>()
}

async fn empty(rig: &Rig, args: &Args, scale: &Scale) -> anyhow::Result<Report> {
    let mut absent = BTreeMap::new();
    for ratio in Ratio::ALL {
        if !args.measures(ratio) {
            absent.insert(ratio, NOT_SELECTED.to_owned());
        }
    }
    Ok(Report {
        ratios: BTreeMap::new(),
        absent,
        machine: Machine::describe(rig, &args.kafka).await?,
        per_order: None,
        throughput: None,
        latency: None,
        catch_up: Vec::new(),
        overload: None,
        memory: Default::default(),
        orders: 0,
        scale: scale.clone(),
        command: args.command(),
        started_at: Utc::now(),
        seconds: 0.0,
    })
}

fn median(values: &[f64]) -> f64 {
    let spread = super::spread::Spread::of(values.iter().copied());
    spread.map_or(0.0, |spread| spread.median)
}

impl Report {
    fn add(&mut self, ratio: Ratio, pairs: &[(f64, f64)]) {
        if let Some(result) = ratio.result(pairs) {
            self.ratios.insert(ratio, result);
        }
    }
}
