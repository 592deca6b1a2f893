//! `lab chaos`: the eyes of the scripts in `scripts/chaos`. They kill, pause and cut; this places the
//! orders to do it to, tells when the moment has come, and proves afterwards that it was hit.

mod evidence;
mod instances;
mod moment;
mod place;

use std::path::PathBuf;

use clap::Subcommand;
use uuid::Uuid;

use endpoints::Endpoints;
use endpoints::Service;
use endpoints::provider;

/// Steps of an experiment, for the scripts in scripts/chaos.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    step: Step,
    /// Where a running `lab up` keeps its state.
    #[arg(long, value_name = "DIR", default_value_os_t = Endpoints::default_state_dir(), global = true)]
    state_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Step {
    Place(place::Args),
    Wait(moment::Args),
    Caller(instances::Caller),
    Arm(instances::Arm),
    Disarm(instances::Disarm),
    /// Fail unless every service answers that it is ready.
    Ready,
    /// Clear the faults of the provider that wait for an order.
    ClearFaults {
        order: Uuid,
    },
    Instances(instances::Instances),
}

pub async fn run(args: Args) -> anyhow::Result<()> {
    let endpoints = || Endpoints::load(&args.state_dir);
    match args.step {
        Step::Place(step) => place::run(step, &endpoints()?).await,
        Step::Wait(step) => moment::run(step, &endpoints()?).await,
        Step::Caller(step) => instances::caller(step).await,
        Step::Arm(step) => instances::arm(step).await,
        Step::Disarm(step) => instances::disarm(step).await,
        Step::Ready => instances::ready(&endpoints()?).await,
        Step::ClearFaults { order } => {
            provider::clear_faults_for(endpoints()?.url(Service::Psp), order).await
        }
        Step::Instances(step) => instances::list(step, &endpoints()?),
    }
}
