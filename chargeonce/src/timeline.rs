//! `chargeonce timeline`: one order's timeline over all services.

use std::process::ExitCode;

use uuid::Uuid;

use crate::operator::AccessArgs;

/// Show the timeline of one order: every durable step of every service, sorted by time.
///
/// Run it when a customer asks about an order, or to see what a crash left behind. Each service reads its
/// own tables: keys, attempts and tries, events, processed and parked messages, shipment, mails, and the
/// provider's charges. If a service does not respond, the end of the output names it; the steps of the others
/// are still shown.
///
/// `commit` is the transaction that wrote the step, if the row still has its id. In front of a step, `$` marks
/// money that moved, and `!` marks something that went wrong.
///
/// Exits with 0 on success, with 1 if no service knows the order or none responds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the order, or of the payment of a direct charge.
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
    let timeline = timeline::read(&operator, &system.operator_urls, args.order).await;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&timeline)?),
        false => print!("{}", timeline::text(&timeline)),
    }
    if !timeline.is_known() {
        eprintln!(
            "error: no service that responded knows this order: check the id, and that all services run"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
