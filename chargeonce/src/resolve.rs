//! `chargeonce resolve`: settles an attempt, a refund or a charge whose outcome only an operator can know.

use clap::Subcommand;
use endpoints::Service;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::operator::ChangeArgs;

/// Settle an attempt, a refund or an unexplained charge manually.
///
/// Use it after you have asked the provider. The decision takes effect like a response of the provider. Later
/// the reconciler confirms it, or reports that the provider's books contradict it. Repeating a decision changes
/// nothing. `list` shows charges that no attempt explains.
///
/// Exits with 0 on success, with 1 if there is no such row or it is already settled in another way.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List charges in the provider's books that no attempt explains.
    List,
    /// Record that the attempt took the money, with this charge.
    Captured {
        order: Uuid,
        attempt: i32,
        charge: String,
    },
    /// Record that the attempt took no money. The customer can pay again.
    NotCharged { order: Uuid, attempt: i32 },
    /// Record that the charge was refunded, with this refund.
    Refunded { charge: String, refund: String },
    /// Record that the charge was not refunded. The service stops trying.
    NotRefunded { charge: String },
    /// Refund a charge that no attempt explains. Without --yes this only shows what would happen.
    RefundCharge {
        charge: String,
        /// Refund the charge instead of only showing what would happen.
        #[arg(long)]
        yes: bool,
    },
    /// Keep the money of a charge that no attempt explains.
    AcceptCharge { charge: String },
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let url = args.change.operator.url_of(Service::Payment)?;
    let Some((path, body)) = args.what.request() else {
        let operator = args.change.operator.client()?;
        let charges = format!("{url}/admin/unexplained-charges");
        return print_charges(&operator.call(Method::GET, &charges, None).await?);
    };
    let operator = args.change.client()?;
    let url = format!("{url}{path}");
    let answer = operator.call(Method::POST, &url, Some(&body)).await?;
    let status = answer["status"].as_str().unwrap_or_default();
    match (answer["changed"].as_bool(), &args.what) {
        (Some(true), _) => println!("✓ {status}"),
        (_, What::RefundCharge { yes: false, .. }) => {
            println!("{status}; repeat with --yes to do it");
        }
        _ => println!("✓ {status} already, nothing changed"),
    }
    Ok(())
}

impl What {
    /// Path and body of the change; `None` for the list.
    fn request(&self) -> Option<(String, Value)> {
        let attempt = |order: &Uuid, attempt: &i32| {
            format!("/admin/payments/{order}/attempts/{attempt}/resolution")
        };
        let refund = |charge: &str| format!("/admin/refunds/{charge}/resolution");
        let decide = |charge: &str| format!("/admin/unexplained-charges/{charge}");
        Some(match self {
            Self::List => return None,
            Self::Captured {
                order,
                attempt: number,
                charge,
            } => {
                let body = json!({ "outcome": "captured", "charge_id": charge });
                (attempt(order, number), body)
            }
            Self::NotCharged {
                order,
                attempt: number,
            } => (attempt(order, number), json!({ "outcome": "not_charged" })),
            Self::Refunded {
                charge,
                refund: made,
            } => {
                let body = json!({ "outcome": "refunded", "refund_id": made });
                (refund(charge), body)
            }
            Self::NotRefunded { charge } => (refund(charge), json!({ "outcome": "not_refunded" })),
            Self::RefundCharge { charge, yes } => {
                let body = json!({ "decision": "refund", "dry_run": !yes });
                (decide(charge), body)
            }
            Self::AcceptCharge { charge } => (decide(charge), json!({ "decision": "accept" })),
        })
    }
}

fn print_charges(charges: &Value) -> anyhow::Result<()> {
    let charges = charges.as_array().cloned().unwrap_or_default();
    for charge in &charges {
        let text = |field: &str| charge[field].as_str().unwrap_or_default().to_owned();
        println!(
            "{}  {} {}  for {}  under {}  first seen {}",
            text("charge_id"),
            charge["amount"],
            text("currency"),
            text("reference"),
            text("idempotency_key"),
            text("first_seen_at"),
        );
    }
    if charges.is_empty() {
        println!("no unexplained charges");
    }
    Ok(())
}
