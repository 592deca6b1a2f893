//! `lab chaos`: steps of an experiment for the scripts in `scripts/chaos`. The scripts kill
//! and pause processes and cut the network. These steps place orders, wait for the right moment, and
//! prove that the fault hit it.

mod instances;
mod observation;
mod place;
mod wait;

use std::path::PathBuf;

use clap::Subcommand;
use endpoints::Endpoints;
use endpoints::provider::Faults;
use uuid::Uuid;

/// Run one step of an experiment, for the scripts in scripts/chaos.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    step: Step,
    /// State directory of a running `lab up` [default: CHARGEONCE_SYSTEM, or the directory that
    /// `lab up` uses by default].
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Step {
    Place(place::Args),
    Wait(wait::Args),
    Caller(instances::Caller),
    Arm(instances::Arm),
    Disarm(instances::Disarm),
    /// Fail unless every service is ready.
    Ready,
    /// Clear the provider's faults that are armed for one order.
    ClearFaults {
        order: Uuid,
    },
    Instances(instances::Instances),
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let endpoints = || Endpoints::find(args.state_dir.as_deref());
    match args.step {
        Step::Place(step) => place::run(step, &endpoints()?).await,
        Step::Wait(step) => wait::run(step, &endpoints()?).await,
        Step::Caller(step) => instances::caller(step).await,
        Step::Arm(step) => instances::arm(step, &endpoints()?).await,
        Step::Disarm(step) => instances::disarm(step, &endpoints()?).await,
        Step::Ready => instances::ready(&endpoints()?).await,
        Step::ClearFaults { order } => {
            Faults::of(&endpoints()?, place::REASON)?
                .clear_for(order)
                .await
        }
        Step::Instances(step) => instances::list(step, &endpoints()?),
    }
}
