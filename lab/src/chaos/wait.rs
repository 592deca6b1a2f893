//! `lab chaos wait`: waits until an order has reached a given point. Only tables, ledger and APIs
//! count as evidence, never a log.

use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use endpoints::Endpoints;
use invariants::Databases;
use tokio::time::Instant;
use uuid::Uuid;

use super::observation::{self, Observation};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Wait until orders have reached a point of their processing, and print the evidence.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_enum)]
    condition: Condition,
    /// Orders that must all meet the condition.
    #[arg(required = true)]
    orders: Vec<Uuid>,
    /// Longest wait. With 0, the condition must hold now.
    #[arg(long, default_value_t = 90)]
    seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Condition {
    /// The provider processes the charge and has not taken the money.
    InFlight,
    /// The provider has taken the money, and payment has not recorded it.
    ChargedUnrecorded,
    /// A second charger has leased the attempt.
    TakenOver,
    /// The capture is recorded and announced exactly once.
    RecordedOnce,
    /// The order is accepted, and its event is not published.
    Unpublished,
    /// The order's event is published, and the outbox still shows it as unpublished.
    PublishedUnmarked,
    /// The order is paid, and has not shipped.
    Paid,
    /// As `paid`, and fulfilment is stopped inside the transaction that would ship the order.
    HandledUncommitted,
}

pub(super) async fn run(args: Args, endpoints: &Endpoints) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let mut databases = None;
    loop {
        let observed = observe_all(&args, endpoints, &mut databases).await;
        match observed {
            Ok(observation) if observation.holds => {
                println!("{}", observation.text);
                return Ok(());
            }
            // An unreachable database counts as "not yet".
            _ if Instant::now() < deadline => tokio::time::sleep(POLL_INTERVAL).await,
            Ok(observation) => bail!("the condition does not hold: {}", observation.text),
            Err(error) => return Err(error),
        }
    }
}

/// The observation of the last order, or of the first that does not meet the condition.
async fn observe_all(
    args: &Args,
    endpoints: &Endpoints,
    databases: &mut Option<Databases>,
) -> anyhow::Result<Observation> {
    let databases = match databases {
        Some(databases) => databases,
        None => databases.insert(Databases::connect(endpoints).await?),
    };
    let mut last = Observation::default();
    for order in &args.orders {
        last = observe(args.condition, endpoints, databases, *order).await?;
        if !last.holds {
            break;
        }
    }
    Ok(last)
}

async fn observe(
    condition: Condition,
    endpoints: &Endpoints,
    databases: &Databases,
    order: Uuid,
) -> anyhow::Result<Observation> {
    match condition {
        Condition::InFlight => observation::in_flight(endpoints, order).await,
        Condition::ChargedUnrecorded => observation::charged_unrecorded(databases, order).await,
        Condition::TakenOver => observation::taken_over(databases, order).await,
        Condition::RecordedOnce => observation::recorded_once(databases, order).await,
        Condition::Unpublished => observation::unpublished(databases, order, false).await,
        Condition::PublishedUnmarked => observation::unpublished(databases, order, true).await,
        Condition::Paid => observation::paid(databases, order).await,
        Condition::HandledUncommitted => observation::handled_uncommitted(databases, order).await,
    }
}
