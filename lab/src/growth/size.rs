//! Measures one size: fills the tables, sends a fixed number of orders, then sends the same requests again.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use endpoints::PerService;
use invariants::Databases;
use sqlx::PgPool;
use testkit::progress::Progress;
use testkit::system::Postgres;
use uuid::Uuid;

use super::Args;
use super::expiring::Expiring;
use super::fill::Filler;
use super::history::{History, RETENTION};
use super::report::{Filled, SizeResult};
use crate::bench::costs::Costs;
use crate::bench::machine::Machine;
use crate::bench::per_order;
use crate::bench::rig::{Place, Rig, Run};
use crate::generator::drive::{Arrivals, Plan, StopAfter};
use crate::generator::replay;
use crate::generator::request::Mix;

/// Real orders whose rows are the templates: one for each SKU and principal of the load generator.
const TEMPLATES: u64 = 198;
/// Orders before the measurement, so that connections, plans and caches are warm.
const WARM_UP_ORDERS: u64 = 300;
/// The checker reads all orders into memory.
const CHECKED_ORDERS_MAX: u64 = 1_000_000;
const PLAIN: Mix = Mix {
    retry_share: 0.0,
    duplicate_share: 0.0,
    hangup_share: 0.0,
};

/// Starts a system of its own for this size.
pub(super) async fn measure(
    args: &Args,
    orders: u64,
    progress: &Progress,
) -> anyhow::Result<(Machine, SizeResult)> {
    let env = RETENTION.map(|(name, value)| (name.to_owned(), value.to_string()));
    let place = Place {
        kafka: args.kafka.clone(),
        postgres: Postgres::Private,
        prefix: String::new(),
        bin_dirs: PerService::default(),
        env: env.to_vec(),
        quiet: false,
    };
    let rig = Rig::start(place).await?;
    let measured = measure_with(&rig, args, orders, progress).await;
    let stopped = rig.stop().await;
    let measured = measured?;
    stopped?;
    Ok(measured)
}

async fn measure_with(
    rig: &Rig,
    args: &Args,
    orders: u64,
    progress: &Progress,
) -> anyhow::Result<(Machine, SizeResult)> {
    let placed = rig.run(plan(args.clients, TEMPLATES));
    let placed = progress
        .step("  placing real orders as templates", placed)
        .await?;
    let (filler, history) = prepare(rig, args, orders, placed).await?;
    let filling = Instant::now();
    let filled = fill(rig, &filler, &history, progress);
    progress.step("  filling the tables", filled).await?;
    let fill_s = filling.elapsed().as_secs_f64();
    let warm_up = rig.run(plan(args.clients, WARM_UP_ORDERS));
    progress.step("  warm-up", warm_up).await?;
    let table_bytes = per_order::sizes(rig).await?.tables.values().sum();

    let expiring = Expiring::prepare(rig, &filler, &history, args.load).await?;
    checkpoint(&rig.orders).await?;
    let (run, costs) = progress
        .step("  new orders", new_orders(rig, args, expiring))
        .await?;
    let sent = run.driven.tally.orders.len() as u64;
    let replays = progress.step("  the same requests again", replays(rig, args, &run));
    let replay_costs = replays.await?;

    rig.check_books().await?;
    let invariants = progress
        .step("  checking the invariants", check(rig, orders))
        .await?;
    let machine = Machine::describe(rig, &args.kafka).await?;
    let filled = Filled {
        orders,
        window_orders: args.window(),
        table_bytes,
        seconds: fill_s,
        invariants,
    };
    Ok((machine, SizeResult::of(filled, sent, &costs, &replay_costs)))
}

async fn prepare(
    rig: &Rig,
    args: &Args,
    orders: u64,
    placed: Run,
) -> anyhow::Result<(Arc<Filler>, History)> {
    let mut templates: Vec<Uuid> = placed.driven.tally.orders.iter().map(|it| it.id).collect();
    templates.sort_unstable();
    // The templates are newer than what is filled.
    let first = placed.shipped.first_due_unix_us;
    let until = chrono::DateTime::from_timestamp_micros(first).context("a time out of range")?;
    wait_until_published(rig).await?;
    let filler = Filler::read(rig, templates).await?;
    Ok((Arc::new(filler), History::new(orders, args.window(), until)))
}

/// A template whose last event waits for its mark would fill the relay's queue.
async fn wait_until_published(rig: &Rig) -> anyhow::Result<()> {
    let databases = Databases::connect(&rig.system().endpoints()).await?;
    let deadline = Instant::now() + std::time::Duration::from_secs(60);
    while let [first, ..] = &invariants::settled(&databases).await?[..] {
        ensure!(Instant::now() < deadline, "not settled: {first}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn fill(
    rig: &Rig,
    filler: &Arc<Filler>,
    history: &History,
    progress: &Progress,
) -> anyhow::Result<()> {
    rig.stop_services().await?;
    filler.fill(history, progress).await?;
    checkpoint(&rig.orders).await?;
    rig.start_services().await
}

/// Each size begins right after a checkpoint: the first change of each page writes the whole page to the log.
async fn checkpoint(pool: &PgPool) -> anyhow::Result<()> {
    sqlx::raw_sql("checkpoint /* lab */").execute(pool).await?;
    Ok(())
}

async fn new_orders(
    rig: &Rig,
    args: &Args,
    mut expiring: Expiring,
) -> anyhow::Result<(Run, Costs)> {
    let before = Costs::read(rig).await?;
    expiring.begin().await?;
    let run = rig.run(plan(args.clients, args.load)).await?;
    expiring.wait_until_reaped().await?;
    let costs = Costs::read(rig).await?.since(&before);
    Ok((run, costs))
}

async fn replays(rig: &Rig, args: &Args, run: &Run) -> anyhow::Result<Costs> {
    let requests = run.driven.tally.counts.sent;
    let urls = rig.system().endpoints().urls.order;
    let before = Costs::read(rig).await?;
    replay::run(urls, run.driven.run, requests, args.clients).await?;
    Ok(Costs::read(rig).await?.since(&before))
}

/// Whether the invariants of all orders were checked, filled ones included. Fails if one does not hold.
async fn check(rig: &Rig, orders: u64) -> anyhow::Result<bool> {
    if orders > CHECKED_ORDERS_MAX {
        return Ok(false);
    }
    let databases = Databases::connect(&rig.system().endpoints()).await?;
    let violated = invariants::settled(&databases).await?;
    if let [first, ..] = &violated[..] {
        bail!(
            "{} invariants are violated, the first: {first}",
            violated.len()
        );
    }
    Ok(true)
}

fn plan(clients: usize, orders: u64) -> Plan {
    Plan {
        arrivals: Arrivals::ClosedLoop { clients },
        stop_after: StopAfter::Accepted(orders),
        mix: PLAIN,
    }
}
