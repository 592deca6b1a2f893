//! The operator's command: attaches to a running system, changes it only on request.

// A command-line tool talks to its user on the console.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod check;
mod create_topic;
mod operator;
mod reconcile;
mod redrive;
mod republish;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Operates a running ChargeOnce system: check it, verify it, repair it.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Verify(verify::Args),
    Reconcile(reconcile::Args),
    Redrive(redrive::Args),
    Republish(republish::Args),
    CreateTopic(create_topic::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            // For the user: the causes in one line and no backtrace.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check(args) => return check::run(args).await,
        Command::Verify(args) => verify::run(args).await?,
        Command::Reconcile(args) => return reconcile::run(args).await,
        Command::Redrive(args) => redrive::run(args).await?,
        Command::Republish(args) => republish::run(args).await?,
        Command::CreateTopic(args) => create_topic::run(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
