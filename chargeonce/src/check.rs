//! `chargeonce check`: every invariant over the databases of a running system, and the charges of
//! single orders in the provider's ledger.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use endpoints::{Endpoints, provider, status};
use invariants::{Databases, Severity, Violation};
use tokio::time::Instant;
use uuid::Uuid;

use crate::system::SystemArgs;

/// The exit code when only an operator can settle what is left.
const FOR_OPERATOR: u8 = 2;
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Violations to print; a broken system may have thousands.
const VIOLATIONS_SHOWN_MAX: usize = 20;
/// Correct orders to print, as proof that they were checked.
const CORRECT_SHOWN_MAX: usize = 5;

/// Check every invariant of a running system, over all its databases.
///
/// Run it after an incident, a deployment or an experiment. It only reads. It waits until open work
/// has finished, because some invariants hold only then. It needs access to the databases of all
/// services.
///
/// An order that was charged twice, and whose second charge was refunded, is shown as violated and repaired.
/// It does not fail the check.
///
/// It also lists what only an operator can settle: orders that other services know and the order service has
/// lost, unexplained charges, failed refunds, parked messages, and mails that wait.
///
/// Exits with 0 if every invariant holds and each named order was charged once and shipped. Exits with 2 if an
/// order, a charge, a refund or a message also waits for an operator, and with 1 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Orders that must have been charged exactly once and shipped.
    #[arg(value_name = "ORDER")]
    orders: Vec<Uuid>,
    /// How long to wait for open work, and for unreachable databases.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    #[command(flatten)]
    system: SystemArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let endpoints = args.system.find()?;
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    let report = loop {
        let report = examine(&endpoints, &args.orders).await;
        let is_final = match &report {
            Ok(report) => report.is_good() || report.is_permanent,
            Err(_) => false,
        };
        if is_final || Instant::now() >= deadline {
            break report?;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    };
    report.print();
    Ok(match (report.is_good(), report.needs_operator()) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(FOR_OPERATOR),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// The result of one pass over the databases.
struct CheckReport {
    violations: Vec<Violation>,
    for_operator: Vec<Violation>,
    /// Whether waiting cannot help: an invariant that must hold at every moment is violated.
    is_permanent: bool,
    orders: Vec<OrderResult>,
    counts: RowCounts,
}

/// How much data was checked.
struct RowCounts {
    orders: i64,
    /// Payments without an order.
    direct_payments: i64,
    charges: i64,
}

/// One order: its status, and its charges in the provider's ledger.
struct OrderResult {
    id: Uuid,
    status: String,
    charges: i64,
}

impl OrderResult {
    fn is_good(&self) -> bool {
        self.charges == 1 && self.status == status::ORDER_SHIPPED
    }
}

impl fmt::Display for RowCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&counted(self.orders, "order"))?;
        if self.direct_payments > 0 {
            let direct = counted(self.direct_payments, "direct payment");
            write!(f, ", {direct}")?;
        }
        write!(f, " and {}", counted(self.charges, "charge"))
    }
}

/// The number with its noun in the singular or the plural.
fn counted(number: i64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

impl fmt::Display for OrderResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}  {}", self.id, self.charges, self.status)
    }
}

async fn examine(endpoints: &Endpoints, orders: &[Uuid]) -> anyhow::Result<CheckReport> {
    let databases = Databases::connect(endpoints).await?;
    let always = invariants::always(&databases).await?;
    let is_permanent = always.iter().any(is_violated);
    Ok(CheckReport {
        violations: invariants::settled(&databases).await?,
        for_operator: invariants::for_operator(&databases).await?,
        is_permanent,
        orders: order_results(&databases, orders).await?,
        counts: row_counts(&databases).await?,
    })
}

async fn order_results(databases: &Databases, ids: &[Uuid]) -> anyhow::Result<Vec<OrderResult>> {
    let charges = provider::charges_per_order(&databases.psp, ids).await?;
    let mut results = Vec::new();
    for id in ids {
        let status: Option<String> = sqlx::query_scalar("select status from orders where id = $1")
            .bind(id)
            .fetch_optional(&databases.order)
            .await
            .context("reading the order's status")?;
        results.push(OrderResult {
            id: *id,
            status: status.unwrap_or_else(|| "not found".to_owned()),
            charges: charges.get(id).copied().unwrap_or_default(),
        });
    }
    Ok(results)
}

async fn row_counts(databases: &Databases) -> anyhow::Result<RowCounts> {
    let count = |pool, query| async move {
        let counted: anyhow::Result<i64> = sqlx::query_scalar(query)
            .fetch_one(pool)
            .await
            .context(query);
        counted
    };
    let direct_payments = sqlx::query_scalar(
        "select count(*) from payments where principal_id is not null and status = $1",
    )
    .bind(status::ATTEMPT_CAPTURED)
    .fetch_one(&databases.payment);
    Ok(RowCounts {
        orders: count(&databases.order, "select count(*) from orders").await?,
        direct_payments: direct_payments.await.context("counting direct payments")?,
        charges: count(
            &databases.psp,
            "select count(*) from charges where status = 'captured'",
        )
        .await?,
    })
}

fn is_violated(violation: &Violation) -> bool {
    violation.severity == Severity::Violated
}

impl CheckReport {
    fn is_good(&self) -> bool {
        !self.violations.iter().any(is_violated) && self.orders.iter().all(OrderResult::is_good)
    }

    /// Waiting mails are listed but do not change the exit code: after a fault, a mail in doubt is normal.
    fn needs_operator(&self) -> bool {
        let mut all = self.for_operator.iter();
        all.any(|it| it.invariant != invariants::MAIL_WAITS)
    }

    fn print(&self) {
        if !self.orders.is_empty() {
            println!("count(*) in the provider's books, per order:");
        }
        let (good, bad): (Vec<_>, Vec<_>) = self.orders.iter().partition(|it| it.is_good());
        for order in good.iter().take(CORRECT_SHOWN_MAX) {
            println!("  ✓ {order}");
        }
        if good.len() > CORRECT_SHOWN_MAX {
            let more = good.len() - CORRECT_SHOWN_MAX;
            println!("  ✓ … and {more} more, each charged once and shipped");
        }
        for order in bad {
            println!("  ✗ {order}");
        }
        for violation in self.violations.iter().take(VIOLATIONS_SHOWN_MAX) {
            let mark = if is_violated(violation) { '✗' } else { '!' };
            println!("  {mark} {violation}");
        }
        if self.violations.len() > VIOLATIONS_SHOWN_MAX {
            let more = self.violations.len() - VIOLATIONS_SHOWN_MAX;
            println!("  … and {more} more");
        }
        for finding in self.for_operator.iter().take(VIOLATIONS_SHOWN_MAX) {
            println!("  ? {finding}");
        }
        if self.for_operator.len() > VIOLATIONS_SHOWN_MAX {
            let more = self.for_operator.len() - VIOLATIONS_SHOWN_MAX;
            println!("  ? … and {more} more");
        }
        let violated = self.violations.iter().filter(|it| is_violated(it)).count();
        match (violated, self.violations.len()) {
            (0, 0) => println!("  ✓ every invariant holds, over {}", self.counts),
            (0, repaired) => println!(
                "  ! every invariant holds, after {}, over {}",
                counted(repaired as i64, "repair"),
                self.counts
            ),
            _ => println!(
                "  ✗ {}, over {}",
                counted(violated as i64, "violation"),
                self.counts
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_is_counted_in_the_singular() {
        let mut counts = RowCounts {
            orders: 1,
            direct_payments: 0,
            charges: 2,
        };
        assert_eq!(counts.to_string(), "1 order and 2 charges");
        (counts.orders, counts.direct_payments) = (0, 1);
        assert_eq!(
            counts.to_string(),
            "0 orders, 1 direct payment and 2 charges"
        );
    }
}
