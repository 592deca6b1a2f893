//! One measured run: pgbench, the drive, shipping, and the provider's books.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use chrono::Utc;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::Args;
use super::report::{BacklogDrain, Report};
use super::sampler::{self, Samples};
use super::target::Target;
use crate::generator::drive::{self, Arrivals, DriveResult, Plan, StopAfter};
use crate::measure::percentiles::Percentiles;
use crate::measure::pgbench::{self, IntakeSql, SqlLimit};
use crate::measure::shipping::{self, LedgerCounts, Reached};
use crate::measure::usage::{Meters, Usage};
use endpoints::{Service, database};

/// Clients of pgbench in an open loop, which has no number of clients: enough to keep the disk busy.
const PGBENCH_CLIENTS_OPEN_LOOP: usize = 32;

pub(super) async fn measure(target: &Target, args: &Args, plan: Plan) -> anyhow::Result<Report> {
    let orders = database::connect(target.database_url(Service::Order)).await?;
    let receipts = database::connect(target.database_url(Service::Receipt)).await?;
    let psp = database::connect(target.database_url(Service::Psp)).await?;
    let limit = sql_limit(target, args, plan).await?;

    println!("Sending orders: {} …", describe(plan));
    let accepted = Arc::new(AtomicU64::new(0));
    let end = CancellationToken::new();
    let sampling = sampler::run(target, &orders, Arc::clone(&accepted), end.clone());
    let working = async {
        // The sampler must end with the drive, even if the drive fails.
        let _end = end.drop_guard();
        let (driven, shipped, backlog) =
            drive_and_ship(target, &orders, args, plan, accepted).await?;
        let mailed = shipping::wait_until_mailed(&receipts, &driven.tally.orders).await?;
        anyhow::Ok((driven, Ends { shipped, mailed }, backlog))
    };
    let (samples, worked) = tokio::join!(sampling, working);
    let (driven, ends, backlog) = worked?;
    let books = shipping::count_charges(&psp, &driven.tally.orders).await?;
    Ok(report(plan, limit, samples?, driven, ends, books, backlog))
}

/// When the orders of a run shipped, and when their receipts were sent.
struct Ends {
    shipped: Reached,
    mailed: Reached,
}

/// What a run with `--backlog` measures in addition.
struct Backlog {
    payment_started_unix_us: i64,
    before: Vec<Usage>,
    after: Vec<Usage>,
}

async fn drive_and_ship(
    target: &Target,
    orders: &PgPool,
    args: &Args,
    plan: Plan,
    accepted: Arc<AtomicU64>,
) -> anyhow::Result<(DriveResult, Reached, Option<Backlog>)> {
    let urls = target.order_urls();
    if args.backlog.is_none() {
        let driven = drive::run(plan, urls, accepted).await?;
        let shipping = shipping::wait_until_shipped(orders, &driven.tally.orders).await?;
        return Ok((driven, shipping, None));
    }
    target.stop_payment().await?;
    let driven = drive::run(plan, urls, accepted).await?;
    let before = memory_now(target);
    let payment_started_unix_us = Utc::now().timestamp_micros();
    target.start_payment().await?;
    let shipping = shipping::wait_until_shipped(orders, &driven.tally.orders).await?;
    let after = memory_now(target);
    Ok((
        driven,
        shipping,
        Some(Backlog {
            payment_started_unix_us,
            before,
            after,
        }),
    ))
}

fn memory_now(target: &Target) -> Vec<Usage> {
    let mut meters = Meters::default();
    meters.sample(&target.pids());
    meters.usage()
}

async fn sql_limit(target: &Target, args: &Args, plan: Plan) -> anyhow::Result<Option<SqlLimit>> {
    if args.no_pgbench {
        return Ok(None);
    }
    let clients = match plan.arrivals {
        Arrivals::ClosedLoop { clients } => clients,
        Arrivals::OpenLoop { .. } => PGBENCH_CLIENTS_OPEN_LOOP,
    };
    // Each client of pgbench is a connection, and the services need theirs.
    let order_url = target.database_url(Service::Order);
    let clients = clients.min(pgbench::clients_max(order_url).await?);
    println!(
        "Measuring bare SQL on this machine: pgbench, {clients} clients, {} s …",
        args.pgbench_seconds
    );
    let intake = IntakeSql::prepare(order_url).await?;
    let measured = intake
        .run(&target.pids(), clients, args.pgbench_seconds)
        .await;
    // The scratch database is dropped even if pgbench fails.
    let dropped = intake.discard().await;
    let limit = measured?;
    dropped?;
    Ok(Some(limit))
}

fn report(
    plan: Plan,
    limit: Option<SqlLimit>,
    samples: Samples,
    driven: DriveResult,
    ends: Ends,
    books: LedgerCounts,
    backlog: Option<Backlog>,
) -> Report {
    let tally = driven.tally;
    let Ends { shipped, mailed } = ends;
    let drain = backlog.map(|backlog| drain(&shipped, backlog));
    Report {
        drive: describe(plan),
        accepted: tally.orders.len() as u64,
        accepted_per_s: driven.accepted_in_window as f64
            / driven.window.as_secs_f64().max(f64::EPSILON),
        shipped: shipped.orders,
        shipped_per_s: shipped.per_s(),
        receipts: mailed.orders,
        receipts_per_s: mailed.per_s(),
        response: Percentiles::of(&tally.responses),
        replay: Percentiles::of(&tally.replays),
        request_to_shipped: Percentiles::of(&shipped.took),
        request_to_receipt: Percentiles::of(&mailed.took),
        generator_late: Percentiles::of(&tally.lateness),
        counts: tally.counts,
        first_error: tally.first_error,
        backlog: samples.orders,
        usage: samples.meters.usage(),
        books,
        limit,
        drain,
    }
}

fn drain(shipped: &Reached, backlog: Backlog) -> BacklogDrain {
    let since_start_s =
        |unix_us: i64| (unix_us - backlog.payment_started_unix_us).max(1) as f64 / 1e6;
    let seconds = since_start_s(shipped.last_unix_us);
    BacklogDrain {
        orders: shipped.orders,
        seconds,
        first_after_s: since_start_s(shipped.first_unix_us),
        orders_per_s: shipped.orders as f64 / seconds,
        before: backlog.before,
        after: backlog.after,
    }
}

fn describe(plan: Plan) -> String {
    let arrivals = match plan.arrivals {
        Arrivals::ClosedLoop { clients } => format!("{clients} clients, closed loop"),
        Arrivals::OpenLoop { rate_per_s } => format!("{rate_per_s} orders/s, open loop"),
    };
    match plan.stop_after {
        StopAfter::Elapsed(limit) => format!("{arrivals}, {} s", limit.as_secs()),
        StopAfter::Accepted(orders) => {
            format!("{arrivals}, until {orders} are accepted while payment is stopped")
        }
    }
}
