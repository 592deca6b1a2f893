//! `chargeonce held`: lists orders whose events a relay holds because Kafka does not accept them.

use anyhow::Context;
use endpoints::Service;
use endpoints::operator::OperatorClient;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::operator::ChangeArgs;
use crate::system::{PUBLISHERS, parse_publisher};

/// List orders whose events cannot be delivered to Kafka, or retry one.
///
/// If a Kafka partition has no leader, the relay retries its orders automatically. An event that Kafka rejects,
/// for example because it is too large, waits for an operator: remove the cause, then use `--retry`. Other
/// orders are not affected.
///
/// Exits with 0 on success, with 1 if a service does not respond or the order is not held.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Retry this order now. Needs --service and --reason.
    #[arg(long, value_name = "ORDER", requires = "service")]
    retry: Option<Uuid>,
    /// Only this service: order, payment or fulfilment.
    #[arg(long, value_parser = parse_publisher)]
    service: Option<Service>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let targets = args.change.operator.targets(&PUBLISHERS, args.service)?;
    let operator = match args.retry {
        Some(_) => args.change.client()?,
        None => args.change.operator.client()?,
    };
    let mut all = Vec::new();
    for (service, url) in targets {
        if let Some(order) = args.retry {
            let url = format!("{url}/admin/outbox/held/{order}/retry");
            operator.send(Method::POST, &url, None).await?;
            println!("{} retries order {order}", service.name());
            continue;
        }
        let held = list(&operator, &url).await;
        let held = held.with_context(|| format!("{service} did not list its held orders"))?;
        all.extend(held.into_iter().map(|order| (service, order)));
    }
    match (args.retry, args.json) {
        (Some(_), _) => {}
        (None, true) => println!("{}", as_json(&all)),
        (None, false) => print(&all),
    }
    Ok(())
}

/// All held orders of a service, page by page.
async fn list(operator: &OperatorClient, url: &str) -> anyhow::Result<Vec<Value>> {
    let mut held: Vec<Value> = Vec::new();
    loop {
        let after = held.last().and_then(|order| order["order_id"].as_str());
        let query = after.map_or_else(String::new, |id| format!("?after={id}"));
        let page = format!("{url}/admin/outbox/held{query}");
        let page = operator.call(Method::GET, &page, None).await?;
        match page.as_array() {
            Some(page) if !page.is_empty() => held.extend(page.iter().cloned()),
            _ => return Ok(held),
        }
    }
}

fn as_json(all: &[(Service, Value)]) -> Value {
    let orders = all.iter().map(|(service, order)| {
        let mut order = order.clone();
        order["service"] = service.name().into();
        order
    });
    json!(orders.collect::<Vec<_>>())
}

fn print(all: &[(Service, Value)]) {
    for (service, order) in all {
        let text = |field: &str| order[field].as_str().unwrap_or_default().to_owned();
        println!(
            "{:<11}{}  since {}  {}",
            service.name(),
            text("order_id"),
            text("held_at"),
            text("reason")
        );
    }
    if all.is_empty() {
        println!("no held orders");
    }
}
