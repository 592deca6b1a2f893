//! `chargeonce redrive`: what is parked in the services, and a second chance for it.

mod table;

use std::path::PathBuf;

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::{Value, json};

use crate::operator::{CONSUMERS, Operator, parse_service};
use endpoints::Endpoints;
use endpoints::Service;

/// Messages asked for at a time.
const PAGE_ROWS: u32 = 200;

/// Lists, redrives or discards messages that a service could not process.
///
/// A parked message holds up the later ones of its order in that service, and nothing else. Once the
/// cause is gone, redrive it: the message and those behind it are handled in their order. Redriving
/// twice does nothing more.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Only this service: order, payment, fulfilment or receipt. Ids are a service's own.
    #[arg(long, value_parser = parse_service, global = true)]
    service: Option<Service>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Where a running `lab up` keeps its state.
    #[arg(long, value_name = "DIR", default_value_os_t = Endpoints::default_state_dir(), global = true)]
    state_dir: PathBuf,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// What is parked, oldest first.
    List,
    /// One message with its headers and payload.
    Show { id: i64 },
    /// Handles parked messages: those of one message's order, or all.
    #[command(
        override_usage = "chargeonce redrive run --service <SERVICE> <ID>\n       chargeonce redrive run --all"
    )]
    Run {
        /// Any message of the order; the order's queue is handled from its first.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<i64>,
        /// Every order that is held up.
        #[arg(long)]
        all: bool,
    },
    /// Gives one culprit up for good, and handles what waits behind it. The service's log keeps its
    /// content.
    Discard { id: i64 },
}

/// Carries the action out; fails if something is still held up that was to go on.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let desk = Desk {
        endpoints: Endpoints::load(&args.state_dir)?,
        operator: Operator::new()?,
        service: args.service,
    };
    match args.action {
        Action::List => list(&desk, args.json).await,
        Action::Show { id } => show(&desk, id, args.json).await,
        Action::Run { id, .. } => drive(&desk, id, args.json).await,
        Action::Discard { id } => discard(&desk, id, args.json).await,
    }
}

struct Desk {
    endpoints: Endpoints,
    operator: Operator,
    service: Option<Service>,
}

impl Desk {
    fn services(&self) -> impl Iterator<Item = Service> {
        let only = self.service;
        let all = CONSUMERS.into_iter();
        all.filter(move |service| only.is_none_or(|only| only == *service))
    }

    /// The one service that an id can be of.
    fn the_service(&self) -> anyhow::Result<Service> {
        self.service
            .context("an id is a service's own: say whose with --service order|payment|fulfilment")
    }

    async fn ask(&self, service: Service, method: Method, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}/admin/parked{path}", self.endpoints.url(service));
        self.operator.ask(method, &url, None).await
    }

    /// All that is parked in a service, each with the service's name.
    async fn parked(&self, service: Service) -> anyhow::Result<Vec<Value>> {
        let mut rows = Vec::new();
        let mut after = 0;
        loop {
            let path = format!("?limit={PAGE_ROWS}&after={after}");
            let mut page = self.ask(service, Method::GET, &path).await?;
            let Value::Array(data) = page["data"].take() else {
                bail!("{service} answered no list");
            };
            for mut row in data {
                row["service"] = service.name().into();
                rows.push(row);
            }
            match page["next"].as_i64() {
                Some(next) => after = next,
                None => return Ok(rows),
            }
        }
    }
}

async fn list(desk: &Desk, json: bool) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for service in desk.services() {
        rows.extend(desk.parked(service).await?);
    }
    match json {
        true => println!("{}", Value::from(rows)),
        false if rows.is_empty() => println!("nothing is parked"),
        false => print!("{}", table::of(&rows)),
    }
    Ok(())
}

async fn show(desk: &Desk, id: i64, json: bool) -> anyhow::Result<()> {
    let service = desk.the_service()?;
    let message = desk.ask(service, Method::GET, &format!("/{id}")).await?;
    match json {
        true => println!("{message}"),
        false => print!("{}", table::one(&message)),
    }
    Ok(())
}

async fn drive(desk: &Desk, id: Option<i64>, json: bool) -> anyhow::Result<()> {
    let mut results = Vec::new();
    match id {
        Some(id) => results.push(drive_one(desk, desk.the_service()?, id).await?),
        None => {
            for service in desk.services() {
                // Only culprits: each brings what waits behind it along.
                let parked = desk.parked(service).await?.into_iter();
                for culprit in parked.filter(|row| row["failed"] == true) {
                    let id = culprit["id"].as_i64().context("a message without an id")?;
                    results.push(drive_one(desk, service, id).await?);
                }
            }
        }
    }
    let held_up = results.iter().filter(|it| !it["failed"].is_null()).count();
    match json {
        true => println!("{}", Value::from(results)),
        false if results.is_empty() => println!("nothing is parked"),
        false => results
            .iter()
            .for_each(|it| println!("{}", table::result(it))),
    }
    if held_up > 0 {
        bail!("{held_up} of them failed again: see `chargeonce redrive list`");
    }
    Ok(())
}

async fn drive_one(desk: &Desk, service: Service, id: i64) -> anyhow::Result<Value> {
    let path = format!("/{id}/redrive");
    let result = desk.ask(service, Method::POST, &path).await?;
    Ok(named(result, service, id))
}

async fn discard(desk: &Desk, id: i64, json: bool) -> anyhow::Result<()> {
    let service = desk.the_service()?;
    let result = desk.ask(service, Method::DELETE, &format!("/{id}")).await?;
    let result = named(result, service, id);
    match json {
        true => println!("{result}"),
        false if result["discarded"] == true => {
            println!("{service} {id}: discarded; {}", table::counts(&result));
        }
        false => println!("{service} {id}: not parked, nothing to discard"),
    }
    Ok(())
}

fn named(mut result: Value, service: Service, id: i64) -> Value {
    result["service"] = json!(service.name());
    result["id"] = json!(id);
    result
}
