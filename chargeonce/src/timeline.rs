//! `chargeonce timeline`: one order's story over all services.

use std::process::ExitCode;

use uuid::Uuid;

use crate::operator::AccessArgs;

/// Tell the story of one order: every durable step of every service, sorted by time.
///
/// Run it when a customer asks about an order, or to see what a crash left behind. Each service reads its
/// own tables: keys, attempts and tries, events, processed and parked messages, shipment, mails, and the
/// provider's charges. A service that does not answer is named at the end; the others still tell their part.
///
/// `commit` is the transaction that made the step, where the row still has it. In front of a step, `$` marks
/// money that moved, and `!` something that went wrong.
///
/// Exits with 0 on success, with 1 if no service knows the order or none answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The order, or the payment of a direct charge.
    order: Uuid,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let system = args.access.system.find()?;
    let operator = args.access.short_client()?;
    let story = timeline::read(&operator, &system.operator_urls, args.order).await;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&story)?),
        false => print!("{}", timeline::text(&story)),
    }
    if !story.is_known() {
        eprintln!("error: no service that answered knows this order");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
