//! The command line of the lab.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use lab::{balancer, chaos, demo, idle, infra, load, up};
use testkit::{broker, smtp_sink};

/// Runs ChargeOnce on one machine: to try it, to break it, to measure it.
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
    Load(load::Args),
    Chaos(chaos::Args),
    Infra(infra::Args),
    #[command(hide = true)]
    Balance(balancer::Args),
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
            // For the user: the causes in one line and no backtrace.
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
        Command::Load(args) => load::run(args).await?,
        Command::Chaos(args) => chaos::run(args).await?,
        Command::Infra(args) => return infra::run(args).await,
        Command::Balance(args) => balancer::run(args).await?,
        Command::Idle(args) => idle::run(args).await?,
        Command::Broker(args) => broker::embedded::run(args).await?,
        Command::SmtpSink(args) => smtp_sink::run(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
