//! The lab: runs the whole system on one machine, to try it, break it and measure it.

// A command-line tool prints to the console.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod balancer;
mod bench;
mod capacity;
mod chaos;
mod console;
mod demo;
mod generator;
mod growth;
mod idle;
mod infra;
mod load;
mod measure;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testkit::{broker, smtp_sink};

/// Run ChargeOnce on one machine: try it, break it, measure it.
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
    Bench(bench::Args),
    Growth(growth::Args),
    Capacity(capacity::Args),
    Chaos(chaos::Args),
    Console(console::Args),
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
            // All causes in one line, without a backtrace.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(args) => up::run(args).await?,
        Command::Demo(args) => demo::run(args).await?,
        Command::Load(args) => load::run(args).await?,
        Command::Bench(args) => return bench::run(args).await,
        Command::Growth(args) => growth::run(args).await?,
        Command::Capacity(args) => capacity::run(&args)?,
        Command::Chaos(args) => chaos::run(args).await?,
        Command::Console(args) => console::run(args).await?,
        Command::Infra(args) => return infra::run(args).await,
        Command::Balance(args) => balancer::run(args).await?,
        Command::Idle(args) => idle::run(args).await?,
        Command::Broker(args) => broker::embedded::run(args).await?,
        Command::SmtpSink(args) => smtp_sink::run(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
