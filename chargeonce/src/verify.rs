//! `chargeonce verify`: tests the promises of a running system over its public API. Each check can
//! fail, and then prints what it saw.

mod checklist;
mod checks;
mod outcomes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::bail;
use checklist::Checklist;
use endpoints::client::Client;
use endpoints::{Service, database};
use outcomes::Accepted;
use sqlx::PgPool;

use crate::system::SystemArgs;

/// Enough for a freshly started system to join its consumer groups and ship.
const SHIPPED_WITHIN: Duration = Duration::from_secs(60);

/// Verify replay, key rules and concurrency of a running system over its public API.
///
/// Run it after an installation or an upgrade. It places a few real orders with the demo's payment
/// method, repeats them in every way a client may, and waits until they have shipped. With access to
/// the provider's database it also counts their charges.
///
/// Exits with 0 if every check passed, with 1 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Base URL of the order service.
    #[arg(long)]
    url: Option<String>,
    /// API key to order with.
    #[arg(long, default_value = "demo-key-acme")]
    key: String,
    /// API key of a second tenant, to check that tenants do not share idempotency keys. An empty
    /// value skips that check.
    #[arg(long, default_value = "demo-key-globex")]
    other_key: String,
    /// URL of the provider's database, to count charges in its books.
    #[arg(long, value_name = "URL")]
    psp_database_url: Option<String>,
    #[command(flatten)]
    system: SystemArgs,
}

/// Runs every check and fails if one of them did.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let target = Target::find(&args)?;
    let client = Client::new(&target.order_url, &args.key)?;
    let psp = match &target.psp_database_url {
        Some(url) => Some(database::connect(url).await?),
        None => None,
    };
    println!("verifying {}\n", client.order_url());
    let mut checklist = Checklist::default();
    run_checks(&mut checklist, &client, &args.other_key, psp.as_ref()).await;
    if psp.is_none() {
        println!("  – the provider's books were not checked: pass --psp-database-url");
    }
    let (passed, total) = (checklist.passed(), checklist.total());
    println!("\n{passed} of {total} checks passed");
    if passed < total {
        bail!("{} of {total} checks failed", total - passed);
    }
    Ok(())
}

/// An empty `other_key` skips the check of a second tenant.
async fn run_checks(
    checklist: &mut Checklist,
    client: &Client,
    other_key: &str,
    psp: Option<&PgPool>,
) {
    let Some(first) = checks::place(checklist, client).await else {
        // The other checks prove nothing if the system accepts no orders.
        return;
    };
    checks::replay(checklist, client, &first).await;
    checks::quoted_key(checklist, client, &first).await;
    checks::other_body(checklist, client, &first).await;
    checks::bad_keys(checklist, client).await;
    let mut orders = vec![Accepted {
        owner: client.clone(),
        id: first.order_id,
    }];
    if !other_key.is_empty() {
        orders.extend(checks::other_tenant(checklist, client, other_key, &first).await);
    }
    orders.extend(outcomes::parallel(checklist, client).await);
    outcomes::shipped(checklist, &orders, SHIPPED_WITHIN).await;
    if let Some(psp) = psp {
        outcomes::charged_once(checklist, psp, &orders).await;
    }
}

/// The system to verify.
struct Target {
    order_url: String,
    psp_database_url: Option<String>,
}

impl Target {
    fn find(args: &Args) -> anyhow::Result<Self> {
        let system = args.system.find();
        let Some(url) = &args.url else {
            let system = system?;
            let psp_database_url = args.psp_database_url.clone();
            return Ok(Self {
                order_url: system.url(Service::Order).to_owned(),
                psp_database_url: Some(
                    psp_database_url
                        .unwrap_or_else(|| system.database_url(Service::Psp).to_owned()),
                ),
            });
        };
        let url = url.trim_end_matches('/');
        // Use the books of the system that was found only if the URL belongs to that system.
        let books = system
            .ok()
            .filter(|system| system.urls.order.iter().any(|known| known == url))
            .map(|system| system.database_url(Service::Psp).to_owned());
        Ok(Self {
            order_url: url.to_owned(),
            psp_database_url: args.psp_database_url.clone().or(books),
        })
    }
}
