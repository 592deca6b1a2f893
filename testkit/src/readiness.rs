//! Waits until a process is ready. If it does not become ready, the error shows its log.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::time::Instant;

use crate::process::{Process, Spec};
use crate::supervisor::Supervisor;

/// How often a probe is repeated.
const PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// If a process exits this many times before it is ready, the wait fails.
const EARLY_EXITS_MAX: usize = 3;
/// Lines of the log that the error shows.
const LOG_TAIL_LINES: usize = 15;

/// Repeats `probe` until it succeeds, the process has died too many times, or the time is over.
pub(crate) async fn wait<P, F>(
    supervisor: &Supervisor,
    name: &str,
    log: &Path,
    timeout: Duration,
    mut probe: P,
) -> anyhow::Result<()>
where
    // Not an async closure: its future could not be sent to another task.
    P: FnMut() -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    let deadline = Instant::now() + timeout;
    let exits_before = supervisor.exits(name).len();
    loop {
        let Err(error) = probe().await else {
            return Ok(());
        };
        let exits = supervisor.exits(name).len() - exits_before;
        let is_gone = exits > 0 && !supervisor.restarts_processes();
        if is_gone || exits >= EARLY_EXITS_MAX {
            return Err(with_log(anyhow!("{name} exited before it was ready"), log));
        }
        if Instant::now() >= deadline {
            let error = error.context(format!("{name} is not ready after {timeout:?}"));
            return Err(with_log(error, log));
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

/// Runs a program and fails if it fails.
pub(crate) async fn run_once(what: &str, spec: &Spec) -> anyhow::Result<()> {
    let process = Process::spawn(spec, &[])?;
    let status: ExitStatus = process.exited().await;
    if status.success() {
        return Ok(());
    }
    let error = anyhow!("{what} failed: {status}");
    Err(match &spec.log {
        Some(log) => with_log(error, log),
        None => error,
    })
}

fn with_log(error: anyhow::Error, log: &Path) -> anyhow::Error {
    let text = std::fs::read_to_string(log)
        .context("the log cannot be read")
        .unwrap_or_else(|error| format!("{error:#}"));
    // Indented lines are a backtrace, which would push the message out.
    let is_message = |line: &&str| !line.starts_with(' ');
    let lines: Vec<&str> = text.lines().filter(is_message).collect();
    let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
    anyhow!(
        "{error:#}\nThe end of {}:\n  {}",
        log.display(),
        tail.join("\n  ")
    )
}
