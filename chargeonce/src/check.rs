//! `chargeonce check`: every invariant over the databases of a running system, and what the provider's books
//! say of single orders.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;
use uuid::Uuid;

use endpoints::Endpoints;
use endpoints::provider;
use invariants::{Databases, Violation};

const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Violations that are written out; a broken system may have thousands.
const SHOWN_MAX: usize = 20;
/// Orders that are as they should be and are written out all the same.
const GOOD_SHOWN_MAX: usize = 5;

/// Check every invariant of a running system, over all its databases.
///
/// Waits for work that is under way to end. Exits with 1 if something does not hold, or if one of
/// the orders named was not charged exactly once and shipped.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Orders that must have been charged once and shipped.
    orders: Vec<Uuid>,
    /// Longest wait for what is under way to end, and for databases that are away.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Where a running `lab up` keeps its state.
    #[arg(long, value_name = "DIR", default_value_os_t = Endpoints::default_state_dir())]
    state_dir: PathBuf,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let endpoints = Endpoints::load(&args.state_dir)?;
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let findings = loop {
        let findings = examine(&endpoints, &args.orders).await;
        let is_final = match &findings {
            Ok(findings) => findings.is_good() || findings.is_beyond_repair,
            Err(_) => false,
        };
        if is_final || Instant::now() >= deadline {
            break findings?;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    };
    findings.show();
    Ok(match findings.is_good() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What one look found.
struct Findings {
    violations: Vec<Violation>,
    /// Whether waiting would not help: something is broken that must hold at every moment.
    is_beyond_repair: bool,
    orders: Vec<Account>,
    totals: Totals,
}

/// How much there is of what.
struct Totals {
    orders: i64,
    /// Payments without an order.
    direct: i64,
    charges: i64,
}

/// One order, by the order service and by the provider's books.
struct Account {
    id: Uuid,
    status: String,
    charges: i64,
}

impl Account {
    fn is_good(&self) -> bool {
        self.charges == 1 && self.status == "shipped"
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} orders", self.orders)?;
        if self.direct > 0 {
            write!(f, ", {} direct payments", self.direct)?;
        }
        write!(f, " and {} charges", self.charges)
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}  {}", self.id, self.charges, self.status)
    }
}

async fn examine(endpoints: &Endpoints, orders: &[Uuid]) -> anyhow::Result<Findings> {
    let databases = Databases::connect(endpoints).await?;
    let is_beyond_repair = !invariants::always(&databases).await?.is_empty();
    let violations = invariants::settled(&databases).await?;
    let charges = provider::charges_per_order(&databases.psp, orders).await?;
    let mut accounts = Vec::new();
    for id in orders {
        let status: Option<String> = sqlx::query_scalar("select status from orders where id = $1")
            .bind(id)
            .fetch_optional(&databases.order)
            .await
            .context("reading the order's status")?;
        accounts.push(Account {
            id: *id,
            status: status.unwrap_or_else(|| "not there".to_owned()),
            charges: charges.get(id).copied().unwrap_or_default(),
        });
    }
    let count = |pool, query| async move {
        let counted: anyhow::Result<i64> = sqlx::query_scalar(query)
            .fetch_one(pool)
            .await
            .context(query);
        counted
    };
    let direct = "select count(*) from payments
                  where principal_id is not null and status = 'captured'";
    let totals = Totals {
        orders: count(&databases.order, "select count(*) from orders").await?,
        direct: count(&databases.payment, direct).await?,
        charges: count(&databases.psp, "select count(*) from charges").await?,
    };
    Ok(Findings {
        violations,
        is_beyond_repair,
        orders: accounts,
        totals,
    })
}

impl Findings {
    fn is_good(&self) -> bool {
        self.violations.is_empty() && self.orders.iter().all(Account::is_good)
    }

    fn show(&self) {
        if !self.orders.is_empty() {
            println!("count(*) in the provider's books, per order:");
        }
        let (good, bad): (Vec<_>, Vec<_>) = self.orders.iter().partition(|it| it.is_good());
        for order in good.iter().take(GOOD_SHOWN_MAX) {
            println!("  ✓ {order}");
        }
        if good.len() > GOOD_SHOWN_MAX {
            let more = good.len() - GOOD_SHOWN_MAX;
            println!("  ✓ … and {more} more, each 1 and shipped");
        }
        for order in bad {
            println!("  ✗ {order}");
        }
        for violation in self.violations.iter().take(SHOWN_MAX) {
            println!("  ✗ {violation}");
        }
        if self.violations.len() > SHOWN_MAX {
            println!("  … and {} more", self.violations.len() - SHOWN_MAX);
        }
        match self.violations.len() {
            0 => println!("  ✓ every invariant holds, over {}", self.totals),
            broken => println!("  ✗ {broken} violations, over {}", self.totals),
        }
    }
}
