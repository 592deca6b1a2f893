//! The moments of an order's life that a script waits for, each told by the tables and books of who
//! is at work, never by a log.

use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use tokio::time::Instant;
use uuid::Uuid;

use super::evidence::{self, Evidence};
use endpoints::Endpoints;
use invariants::Databases;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Wait for a moment in the life of orders, and print the evidence.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[arg(value_enum)]
    moment: Moment,
    /// Every one of them must have come there.
    #[arg(required = true)]
    orders: Vec<Uuid>,
    /// Longest wait; with 0, the moment must be now.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Moment {
    /// The provider is at the charge, and has not taken the money.
    InFlight,
    /// The money is taken, and payment does not know.
    ChargedUnrecorded,
    /// A second charger has taken the attempt up.
    TakenOver,
    /// The capture was written and announced, and nobody did either again.
    RecordedOnce,
    /// The order is accepted, and its event is not published.
    Unpublished,
    /// The order's event is published, and its outbox still says that it is not.
    PublishedUnmarked,
    /// The capture is announced, and nothing has shipped.
    Paid,
    /// As `paid`, and fulfilment stands still in the transaction that would ship it.
    HandledUncommitted,
}

pub(super) async fn run(args: Args, endpoints: &Endpoints) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let mut databases = None;
    loop {
        let seen = look(&args, endpoints, &mut databases).await;
        match seen {
            Ok(evidence) if evidence.is_there => {
                println!("{}", evidence.text);
                return Ok(());
            }
            // A store that is away is waited for as well.
            _ if Instant::now() < deadline => tokio::time::sleep(POLL_INTERVAL).await,
            Ok(evidence) => bail!("not so: {}", evidence.text),
            Err(error) => return Err(error),
        }
    }
}

/// The evidence of the last order, or of the first that is not there.
async fn look(
    args: &Args,
    endpoints: &Endpoints,
    databases: &mut Option<Databases>,
) -> anyhow::Result<Evidence> {
    let databases = match databases {
        Some(databases) => databases,
        None => databases.insert(Databases::connect(endpoints).await?),
    };
    let mut last = Evidence::default();
    for order in &args.orders {
        last = evidence_of(args.moment, endpoints, databases, *order).await?;
        if !last.is_there {
            break;
        }
    }
    Ok(last)
}

async fn evidence_of(
    moment: Moment,
    endpoints: &Endpoints,
    databases: &Databases,
    order: Uuid,
) -> anyhow::Result<Evidence> {
    match moment {
        Moment::InFlight => evidence::in_flight(endpoints, order).await,
        Moment::ChargedUnrecorded => evidence::charged_unrecorded(databases, order).await,
        Moment::TakenOver => evidence::taken_over(databases, order).await,
        Moment::RecordedOnce => evidence::recorded_once(databases, order).await,
        Moment::Unpublished => evidence::unpublished(databases, order, false).await,
        Moment::PublishedUnmarked => evidence::unpublished(databases, order, true).await,
        Moment::Paid => evidence::paid(databases, order).await,
        Moment::HandledUncommitted => evidence::handled_uncommitted(databases, order).await,
    }
}
