//! The command line of the lab.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::{
    balance, broker, chaos, check, demo, idle, infra, load, reconcile, redrive, republish,
    smtp_sink, topic, up, verify,
};

/// Runs ChargeOnce on one machine: to try it, to test it, to measure it.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Args),
    Demo(demo::Args),
    Verify(verify::Args),
    Check(check::Args),
    Load(load::Args),
    Reconcile(reconcile::Args),
    Redrive(redrive::Args),
    Republish(republish::Args),
    Chaos(chaos::Args),
    Infra(infra::Args),
    CreateTopic(topic::Args),
    #[command(hide = true)]
    Balance(balance::Args),
    #[command(hide = true)]
    Idle(idle::Args),
    #[command(hide = true)]
    Broker(broker::embedded::Args),
    #[command(hide = true)]
    SmtpSink(smtp_sink::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            // For the user, so the causes in one line and no backtrace.
            #[allow(clippy::print_stderr)]
            {
                eprintln!("error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(args).await?,
        Command::Demo(args) => demo::run(args).await?,
        Command::Verify(args) => verify::run(args).await?,
        Command::Check(args) => return check::run(args).await,
        Command::Load(args) => load::run(args).await?,
        Command::Reconcile(args) => return reconcile::run(args).await,
        Command::Redrive(args) => redrive::run(args).await?,
        Command::Republish(args) => republish::run(args).await?,
        Command::Chaos(args) => chaos::run(args).await?,
        Command::Infra(args) => return infra::run(args).await,
        Command::CreateTopic(args) => topic::run(args).await?,
        Command::Balance(args) => balance::run(args).await?,
        Command::Idle(args) => idle::run(args).await?,
        Command::Broker(args) => broker::embedded::run(args).await?,
        Command::SmtpSink(args) => smtp_sink::run(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
