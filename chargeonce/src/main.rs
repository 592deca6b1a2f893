//! The command for operators. It attaches to a running system and changes it only on request.

// A command-line tool prints to the console.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod audit;
mod canary;
mod check;
mod create_topic;
mod held;
mod mails;
mod operator;
mod operator_token;
mod reconcile;
mod redrive;
mod republish;
mod resolve;
mod system;
mod timeline;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const AFTER_HELP: &str = "\
The command finds the system by the first of these that is set:
  --url URL              one service, where a command has this option
  --state-dir DIR        the state directory of a running `lab up`
  CHARGEONCE_SYSTEM      a JSON document with URLs, databases and broker of the system
  CHARGEONCE_STATE_DIR   the state directory of a running `lab up`
  otherwise              the default state directory of `lab up`

Commands that use the services' operator listeners need a token: CHARGEONCE_OPERATOR_TOKEN, or the one in
the description of the system. Commands that change something also need --reason, for the audit log.

Exit codes:
  0  success
  1  a check failed, or the command could not do its work; the reason is on standard error
  2  `reconcile` or `check` found something that only an operator can settle, or the command line is invalid";

/// Operate a running ChargeOnce system: check it, verify it, repair it.
#[derive(Debug, Parser)]
#[command(name = "chargeonce", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Timeline(timeline::Args),
    Canary(canary::Args),
    Verify(verify::Args),
    Reconcile(reconcile::Args),
    Redrive(redrive::Args),
    Held(held::Args),
    Mails(mails::Args),
    Republish(republish::Args),
    Resolve(resolve::Args),
    Audit(audit::Args),
    OperatorToken(operator_token::Args),
    CreateTopic(create_topic::Args),
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
        Command::Check(args) => return check::run(args).await,
        Command::Timeline(args) => return timeline::run(args).await,
        Command::Canary(args) => return canary::run(args).await,
        Command::Verify(args) => verify::run(args).await?,
        Command::Reconcile(args) => return reconcile::run(args).await,
        Command::Redrive(args) => redrive::run(args).await?,
        Command::Held(args) => held::run(args).await?,
        Command::Mails(args) => mails::run(args).await?,
        Command::Republish(args) => republish::run(args).await?,
        Command::Resolve(args) => resolve::run(args).await?,
        Command::Audit(args) => audit::run(args).await?,
        Command::OperatorToken(args) => operator_token::run(&args),
        Command::CreateTopic(args) => create_topic::run(args).await?,
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

    #[test]
    fn every_command_explains_when_to_use_it() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_long_about().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(help.contains("Exit"), "{}: {help}", command.get_name());
        }
    }
}
