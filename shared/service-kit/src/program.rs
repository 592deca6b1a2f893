//! What every `main` does around its service: telemetry, signals, exit code.

use std::future::Future;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Sets up telemetry, runs the program, and reports a failure once, with its whole chain.
pub async fn run<F>(name: &'static str, telemetry: &telemetry::Settings, program: F) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    let guard = match telemetry::init(name, telemetry) {
        Ok(guard) => guard,
        Err(error) => return fail(name, &error.into()),
    };
    #[cfg(feature = "crash-points")]
    if let Err(error) = crate::crash::arm_from_env() {
        return fail(name, &error);
    }
    let outcome = program.await;
    // Flushing spans blocks, so it must not sit on the runtime's own thread.
    let _ = tokio::task::spawn_blocking(move || drop(guard)).await;
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(name, &error),
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the last word of a program that failed"
)]
fn fail(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("{name}: {error:#}");
    ExitCode::FAILURE
}

/// A token that is cancelled by SIGTERM or Ctrl-C.
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
        tracing::info!("shutting down");
        token.cancel();
    });
    Ok(shutdown)
}
