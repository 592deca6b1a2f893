//! `chargeonce mails`: mails that wait for an operator.

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use endpoints::Service;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use endpoints::operator::OperatorClient;

use crate::operator::ChangeArgs;

/// List mails that wait for an operator, release or settle held ones, or resolve one in doubt.
///
/// A mail is held if its event is older than MAIL_EVENT_AGE_MAX_SECONDS, or from before
/// MAIL_HOLD_EVENTS_BEFORE. It has failed if the mail server rejected it, and is unknown if it may or may not
/// have been delivered. Every command can be repeated safely.
///
/// Exits with 0 on success, with 1 if the service does not respond or the mail cannot be resolved.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    change: ChangeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List mails of one status, or all mails of one order.
    List {
        #[arg(long, value_enum, default_value = "held", conflicts_with = "order")]
        status: MailStatus,
        #[arg(long)]
        order: Option<Uuid>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Let held mails be sent: those of one order, or all.
    Release {
        #[arg(long, required_unless_present = "all", conflicts_with = "all")]
        order: Option<Uuid>,
        #[arg(long)]
        all: bool,
    },
    /// Count held mails as sent, without sending them: those of one order, or all. For a receipt database
    /// that was restored from a backup.
    Settle {
        #[arg(long, required_unless_present = "all", conflicts_with = "all")]
        order: Option<Uuid>,
        #[arg(long)]
        all: bool,
    },
    /// Send a failed or unknown mail once more, or settle it as sent.
    Resolve {
        /// The event id of the mail, as `list` shows it.
        event: Uuid,
        /// The type of the mail, as `list` shows it.
        mail_type: String,
        /// The number of tries that `list` shows. The decision applies to no later try.
        #[arg(long)]
        tries: i32,
        #[arg(long, value_enum)]
        action: Action,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MailStatus {
    Held,
    Failed,
    Unknown,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// Send it once more; the customer may get it twice.
    Send,
    /// Count it as sent.
    Settle,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let url = args.change.operator.url_of(Service::Receipt)?;
    let operator = match &args.command {
        Command::List { .. } => args.change.operator.client()?,
        Command::Release { .. } | Command::Settle { .. } | Command::Resolve { .. } => {
            args.change.client()?
        }
    };
    match args.command {
        Command::List {
            status,
            order,
            json,
        } => {
            let filter = match order {
                Some(order) => format!("order_id={order}"),
                None => format!("status={}", name(&status)),
            };
            let mails = list(&operator, &url, &filter).await?;
            match json {
                true => println!("{}", Value::from(mails)),
                false => print(&mails),
            }
        }
        Command::Release { order, .. } => {
            let url = format!("{url}/admin/mails/release");
            let body = held_mails(order);
            let released = operator.call(Method::POST, &url, Some(&body)).await?;
            println!("{} mails released", released["released"]);
        }
        Command::Settle { order, .. } => {
            let url = format!("{url}/admin/mails/settle");
            let body = held_mails(order);
            let settled = operator.call(Method::POST, &url, Some(&body)).await?;
            println!("{} mails settled", settled["settled"]);
        }
        Command::Resolve {
            event,
            mail_type,
            tries,
            action,
        } => {
            let body = json!({"event_id": event, "mail_type": mail_type, "tries": tries,
                              "action": name(&action)});
            let url = format!("{url}/admin/mails/resolve");
            let mail = operator.call(Method::POST, &url, Some(&body)).await?;
            print(&[mail]);
        }
    }
    Ok(())
}

/// The held mails of one order, or all.
fn held_mails(order: Option<Uuid>) -> Value {
    match order {
        Some(order) => json!({"order_id": order}),
        None => json!({"all": true}),
    }
}

/// The name of a value as the service spells it.
fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// All mails that match, page by page.
async fn list(operator: &OperatorClient, url: &str, filter: &str) -> anyhow::Result<Vec<Value>> {
    let (mut mails, mut after) = (Vec::new(), String::new());
    loop {
        let page = format!("{url}/admin/mails?{filter}{after}");
        let page = operator.call(Method::GET, &page, None).await?;
        let data = page["data"]
            .as_array()
            .context("the response has no list")?;
        mails.extend(data.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return Ok(mails),
        }
    }
}

fn print(mails: &[Value]) {
    for mail in mails {
        let text = |field: &str| mail[field].as_str().unwrap_or_default().to_owned();
        println!(
            "{} {:<13}{:<8} tries {}  order {}  {}  {}",
            text("event_id"),
            text("mail_type"),
            text("status"),
            mail["tries"],
            text("order_id"),
            text("event_time"),
            text("last_error")
        );
    }
    if mails.is_empty() {
        println!("no mails");
    }
}
