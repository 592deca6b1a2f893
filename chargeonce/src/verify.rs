//! `chargeonce verify`: asks any running system the questions a sceptical customer would ask, over its
//! public API, and compares the answers with the promise. Each check can fail and says what it saw.

mod checklist;
mod checks;
mod outcomes;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use sqlx::PgPool;

use checklist::Checklist;
use endpoints::Endpoints;
use endpoints::Service;
use endpoints::client::Client;
use endpoints::provider;
use outcomes::Accepted;

/// Enough for a freshly started system to join its consumer groups and ship.
const SHIPPED_WITHIN: Duration = Duration::from_secs(60);

/// Check replay, mismatch, keys and concurrency against a running system.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The order service's base URL. Without it: the system that `lab up` runs here.
    #[arg(long)]
    url: Option<String>,
    /// The API key to order with.
    #[arg(long, default_value = "demo-key-acme")]
    key: String,
    /// A second tenant's API key, to see that tenants do not share keys; empty leaves that check out.
    #[arg(long, default_value = "demo-key-globex")]
    other_key: String,
    /// The PSP's database, to count charges in its own books.
    #[arg(long, value_name = "URL")]
    psp_database_url: Option<String>,
    /// Where a running `lab up` keeps its state.
    #[arg(long)]
    state_dir: Option<PathBuf>,
}

/// Runs every check and fails if one of them did.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let target = Target::find(&args)?;
    let client = Client::new(&target.order_url, &args.key)?;
    let books = match &target.psp_database_url {
        Some(url) => Some(provider::connect(url).await?),
        None => None,
    };
    println!("verifying {}\n", client.order_url());
    let mut checklist = Checklist::default();
    run_checks(&mut checklist, &client, &args, books.as_ref()).await;
    if books.is_none() {
        println!("  – the PSP's books were not checked: pass --psp-database-url to count charges");
    }
    println!(
        "\n{} of {} checks passed",
        checklist.passed(),
        checklist.total()
    );
    if checklist.passed() < checklist.total() {
        bail!(
            "{} of {} checks failed",
            checklist.total() - checklist.passed(),
            checklist.total()
        );
    }
    Ok(())
}

async fn run_checks(
    checklist: &mut Checklist,
    client: &Client,
    args: &Args,
    books: Option<&PgPool>,
) {
    let Some(first) = checks::place(checklist, client).await else {
        // Nothing below means anything on a system that takes no orders.
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
    if !args.other_key.is_empty() {
        orders.extend(checks::other_tenant(checklist, client, &args.other_key, &first).await);
    }
    orders.extend(outcomes::parallel(checklist, client).await);
    outcomes::shipped(checklist, &orders, SHIPPED_WITHIN).await;
    if let Some(psp) = books {
        outcomes::charged_once(checklist, psp, &orders).await;
    }
}

struct Target {
    order_url: String,
    psp_database_url: Option<String>,
}

impl Target {
    /// A URL names the system; the books of the local `lab up` are used only if it is that very one.
    fn find(args: &Args) -> anyhow::Result<Self> {
        let state_dir = args
            .state_dir
            .clone()
            .unwrap_or_else(Endpoints::default_state_dir);
        let local = Endpoints::load(&state_dir);
        let Some(url) = &args.url else {
            let local = local?;
            return Ok(Self {
                order_url: local.url(Service::Order).to_owned(),
                psp_database_url: Some(
                    args.psp_database_url
                        .clone()
                        .unwrap_or_else(|| local.database_url(Service::Psp).to_owned()),
                ),
            });
        };
        let url = url.trim_end_matches('/');
        let books_of_local = local
            .ok()
            .filter(|local| {
                local
                    .urls
                    .get(Service::Order)
                    .iter()
                    .any(|known| known == url)
            })
            .map(|local| local.database_url(Service::Psp).to_owned());
        Ok(Self {
            order_url: url.to_owned(),
            psp_database_url: args.psp_database_url.clone().or(books_of_local),
        })
    }
}
