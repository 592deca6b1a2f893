//! Shared by every `main`: telemetry, signals and exit code.

use std::future::Future;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Sets up telemetry, runs the program, and prints a failure once, with all its causes.
pub async fn run<F>(name: &'static str, telemetry: &telemetry::Settings, program: F) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    let guard = match telemetry::init(name, telemetry) {
        Ok(guard) => guard,
        Err(error) => return fail(name, &error.into()),
    };
    if let Err(error) = crate::unprotected::check_this_program() {
        return fail(name, &error);
    }
    #[cfg(feature = "crash-points")]
    if let Err(error) = crate::crash::arm_from_env() {
        return fail(name, &error);
    }
    raise_open_files_limit();
    let result = program.await;
    // Dropping the guard flushes spans and blocks, so it must not run on a thread of the runtime.
    let _ = tokio::task::spawn_blocking(move || drop(guard)).await;
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(name, &error),
    }
}

/// Each connection is an open file. Many systems start a program with a limit of 1,024, which it may raise to the hard
/// limit itself.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::info!(%error, "limit of open files not raised");
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the error must be visible even if logging is off"
)]
fn fail(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("{name}: {error:#}");
    ExitCode::FAILURE
}

/// A token that SIGTERM or Ctrl-C cancels.
pub fn shutdown_on_signal() -> anyhow::Result<CancellationToken> {
    let shutdown = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("shutdown requested");
        token.cancel();
    });
    Ok(shutdown)
}
