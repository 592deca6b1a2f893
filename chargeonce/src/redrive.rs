//! `chargeonce redrive`: lists parked messages, and processes or discards them.

mod table;

use anyhow::{Context, bail};
use endpoints::Service;
use endpoints::operator::OperatorClient;
use reqwest::Method;
use serde_json::{Value, json};

use crate::operator::ChangeArgs;
use crate::system::{CONSUMERS, parse_consumer};

/// Messages per page.
const PAGE_ROWS: u32 = 200;

/// List, redrive or discard messages that a service could not process.
///
/// A parked message blocks the later messages of its order in that service, and nothing else. Find
/// the cause with `list` and `show`, fix it, then use `run`: the service processes the failed message
/// and those behind it in order. Redriving twice has no further effect.
///
/// Exits with 0 on success, and with 1 if a redriven message failed again or a service could not be
/// reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Only this service: order, payment, fulfilment or receipt. Message ids are unique per service.
    #[arg(long, value_parser = parse_consumer, global = true)]
    service: Option<Service>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List parked messages, oldest first.
    List,
    /// Show one message with its headers and payload. Needs --service.
    Show { id: i64 },
    /// Process parked messages again: those of one order, or all. Needs --reason.
    #[command(
        override_usage = "chargeonce redrive run --reason <TEXT> --service <SERVICE> <ID>\n       chargeonce redrive run --reason <TEXT> --all"
    )]
    Run {
        /// Any parked message of the order. The order's messages are processed from the first one.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<i64>,
        /// The messages of every blocked order.
        #[arg(long)]
        all: bool,
    },
    /// Discard one failed message permanently and process those behind it. Needs --service and --reason. The
    /// service's log keeps the content.
    Discard { id: i64 },
}

/// Fails if a redriven message failed again.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let operator = match args.action {
        Action::List | Action::Show { .. } => args.change.operator.client()?,
        Action::Run { .. } | Action::Discard { .. } => args.change.client()?,
    };
    let parked = ParkedMessages {
        targets: args.change.operator.targets(&CONSUMERS, args.service)?,
        operator,
    };
    match args.action {
        Action::List => list(&parked, args.json).await,
        Action::Show { id } => show(&parked, id, args.json).await,
        Action::Run { id: Some(id), .. } => redrive_one(&parked, id, args.json).await,
        Action::Run { id: None, .. } => redrive_all(&parked, args.json).await,
        Action::Discard { id } => discard(&parked, id, args.json).await,
    }
}

/// The parked messages of the chosen services.
struct ParkedMessages {
    /// Services and their base URLs.
    targets: Vec<(Service, String)>,
    operator: OperatorClient,
}

/// One service that may have parked messages.
struct Target<'a> {
    service: Service,
    url: &'a str,
    operator: &'a OperatorClient,
}

impl ParkedMessages {
    fn targets(&self) -> impl Iterator<Item = Target<'_>> {
        self.targets.iter().map(|(service, url)| Target {
            service: *service,
            url,
            operator: &self.operator,
        })
    }

    /// The one service that a message id belongs to.
    fn only_target(&self) -> anyhow::Result<Target<'_>> {
        let mut targets = self.targets();
        match (targets.next(), targets.next()) {
            (Some(target), None) => Ok(target),
            _ => bail!(
                "message ids are unique per service: add --service order|payment|fulfilment|receipt"
            ),
        }
    }
}

impl Target<'_> {
    async fn call(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}/admin/parked{path}", self.url);
        self.operator.call(method, &url, None).await
    }

    /// Every parked message of the service, each with the service's name.
    async fn list(&self) -> anyhow::Result<Vec<Value>> {
        let mut rows = Vec::new();
        let mut after = 0;
        loop {
            let path = format!("?limit={PAGE_ROWS}&after={after}");
            let mut page = self.call(Method::GET, &path).await?;
            let Value::Array(data) = page["data"].take() else {
                bail!("{} did not return a list", self.service);
            };
            for mut row in data {
                row["service"] = self.service.name().into();
                rows.push(row);
            }
            match page["next"].as_i64() {
                Some(next) => after = next,
                None => return Ok(rows),
            }
        }
    }

    async fn redrive(&self, id: i64) -> anyhow::Result<Value> {
        let path = format!("/{id}/redrive");
        let result = self.call(Method::POST, &path).await?;
        Ok(self.labelled(result, id))
    }

    fn labelled(&self, mut result: Value, id: i64) -> Value {
        result["service"] = json!(self.service.name());
        result["id"] = json!(id);
        result
    }
}

async fn list(parked: &ParkedMessages, json: bool) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for target in parked.targets() {
        rows.extend(target.list().await?);
    }
    match json {
        true => println!("{}", Value::from(rows)),
        false if rows.is_empty() => println!("no parked messages"),
        false => print!("{}", table::list(&rows)),
    }
    Ok(())
}

async fn show(parked: &ParkedMessages, id: i64, json: bool) -> anyhow::Result<()> {
    let target = parked.only_target()?;
    let message = target.call(Method::GET, &format!("/{id}")).await?;
    match json {
        true => println!("{message}"),
        false => print!("{}", table::message(&message)),
    }
    Ok(())
}

async fn redrive_one(parked: &ParkedMessages, id: i64, json: bool) -> anyhow::Result<()> {
    let result = parked.only_target()?.redrive(id).await?;
    print_results(vec![result], json)
}

async fn redrive_all(parked: &ParkedMessages, json: bool) -> anyhow::Result<()> {
    let mut results = Vec::new();
    for target in parked.targets() {
        // Only failed messages: redriving one also processes those that wait behind it.
        let rows = target.list().await?.into_iter();
        for failed in rows.filter(table::is_failed) {
            let id = failed["id"].as_i64().context("a message without an id")?;
            results.push(target.redrive(id).await?);
        }
    }
    print_results(results, json)
}

fn print_results(results: Vec<Value>, json: bool) -> anyhow::Result<()> {
    let failed = results.iter().filter(|it| !it["failed"].is_null()).count();
    match json {
        true => println!("{}", Value::from(results)),
        false if results.is_empty() => println!("no parked messages"),
        false => results
            .iter()
            .for_each(|it| println!("{}", table::result(it))),
    }
    if failed > 0 {
        bail!("{failed} messages failed again: see `chargeonce redrive list`");
    }
    Ok(())
}

async fn discard(parked: &ParkedMessages, id: i64, json: bool) -> anyhow::Result<()> {
    let target = parked.only_target()?;
    let service = target.service;
    let result = target.call(Method::DELETE, &format!("/{id}")).await?;
    let result = target.labelled(result, id);
    match json {
        true => println!("{result}"),
        false if result["discarded"] == true => {
            println!("{service} {id}: discarded; {}", table::counts(&result));
        }
        false => println!("{service} {id}: not parked, nothing to discard"),
    }
    Ok(())
}
