//! One measured run from the limit to the books.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use chrono::Utc;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::drive::{self, Driven, Pace, Plan};
use super::percentiles::Percentiles;
use super::report::{Drain, Limit, Report};
use super::settle::{self, Books, Settled};
use super::target::Target;
use super::usage::{Meters, Usage};
use super::watch::{self, Watched};
use super::{Args, pgbench};
use endpoints::Service;
use endpoints::database;

/// pgbench with the open loop, which has no number of clients: enough to keep the disk busy.
const LIMIT_CLIENTS_OPEN_LOOP: usize = 32;

pub(super) async fn measure(target: &Target, args: &Args, plan: Plan) -> anyhow::Result<Report> {
    let orders = database::connect(target.database_url(Service::Order)).await?;
    let psp = database::connect(target.database_url(Service::Psp)).await?;
    let limit = limit(target, args, plan).await?;

    println!("Driving: {} …", describe(plan));
    let accepted = Arc::new(AtomicU64::new(0));
    let end = CancellationToken::new();
    let watching = watch::run(target, &orders, Arc::clone(&accepted), end.clone());
    let working = async {
        // Whatever happens to the work, the watcher must end with it.
        let _end = end.drop_guard();
        drive_and_settle(target, &orders, args, plan, accepted).await
    };
    let (watched, worked) = tokio::join!(watching, working);
    let (driven, settled, backlog) = worked?;
    let books = settle::read_books(&psp, &driven.tally.orders).await?;
    Ok(report(
        plan, limit, watched?, driven, settled, books, backlog,
    ))
}

/// What the backlog variant notes on its way.
struct Backlog {
    payment_back_unix_us: i64,
    before: Vec<Usage>,
    after: Vec<Usage>,
}

async fn drive_and_settle(
    target: &Target,
    orders: &PgPool,
    args: &Args,
    plan: Plan,
    accepted: Arc<AtomicU64>,
) -> anyhow::Result<(Driven, Settled, Option<Backlog>)> {
    let urls = target.order_urls();
    if args.backlog.is_none() {
        let driven = drive::run(plan, urls, accepted).await?;
        let settled = settle::wait_until_shipped(orders, &driven.tally.orders).await?;
        return Ok((driven, settled, None));
    }
    target.stop_payment().await?;
    let driven = drive::run(plan, urls, accepted).await?;
    let before = memory_now(target);
    let payment_back_unix_us = Utc::now().timestamp_micros();
    target.start_payment().await?;
    let settled = settle::wait_until_shipped(orders, &driven.tally.orders).await?;
    let after = memory_now(target);
    Ok((
        driven,
        settled,
        Some(Backlog {
            payment_back_unix_us,
            before,
            after,
        }),
    ))
}

fn memory_now(target: &Target) -> Vec<Usage> {
    let mut meters = Meters::default();
    meters.sample(&target.pids());
    meters.bill()
}

async fn limit(target: &Target, args: &Args, plan: Plan) -> anyhow::Result<Option<Limit>> {
    if args.no_pgbench {
        return Ok(None);
    }
    let clients = match plan.pace {
        Pace::Closed { clients } => clients,
        Pace::Open { .. } => LIMIT_CLIENTS_OPEN_LOOP,
    };
    println!(
        "Measuring the machine's own limit: pgbench, {clients} clients, {} s …",
        args.pgbench_seconds
    );
    let limit = pgbench::run(target, clients, args.pgbench_seconds).await?;
    Ok(Some(limit))
}

fn report(
    plan: Plan,
    limit: Option<Limit>,
    watched: Watched,
    driven: Driven,
    settled: Settled,
    books: Books,
    backlog: Option<Backlog>,
) -> Report {
    let tally = driven.tally;
    let drain = backlog.map(|backlog| drain(&settled, backlog));
    Report {
        drive: describe(plan),
        accepted: tally.orders.len() as u64,
        accepted_per_s: driven.accepted_in_window as f64
            / driven.window.as_secs_f64().max(f64::EPSILON),
        shipped: settled.shipped,
        shipped_per_s: settled.shipped as f64 / settled.span_s().max(f64::EPSILON),
        answer: Percentiles::of(&tally.answers),
        replay: Percentiles::of(&tally.replays),
        request_to_shipped: Percentiles::of(&settled.to_shipped),
        generator_late: Percentiles::of(&tally.lateness),
        counts: tally.counts,
        first_trouble: tally.first_trouble,
        backlog: watched.samples,
        usage: watched.meters.bill(),
        books,
        limit,
        drain,
    }
}

fn drain(settled: &Settled, backlog: Backlog) -> Drain {
    let since_back_s = |unix_us: i64| (unix_us - backlog.payment_back_unix_us).max(1) as f64 / 1e6;
    let seconds = since_back_s(settled.last_shipped_unix_us);
    Drain {
        orders: settled.shipped,
        seconds,
        first_after_s: since_back_s(settled.first_shipped_unix_us),
        orders_per_s: settled.shipped as f64 / seconds,
        before: backlog.before,
        after: backlog.after,
    }
}

fn describe(plan: Plan) -> String {
    let pace = match plan.pace {
        Pace::Closed { clients } => format!("{clients} clients, closed loop"),
        Pace::Open { rate_per_s } => format!("{rate_per_s} orders/s, open loop"),
    };
    match plan.until {
        drive::Until::Elapsed(limit) => format!("{pace}, {} s", limit.as_secs()),
        drive::Until::Accepted(orders) => {
            format!("{pace}, until {orders} are accepted without payment")
        }
    }
}
