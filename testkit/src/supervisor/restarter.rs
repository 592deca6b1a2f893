//! The task that watches one process, records its exit and restarts it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::STOP_GRACE;
use super::registry::{Registry, find};
use crate::process::Process;

/// The wait before a restart, by default. It doubles while the process keeps dying early.
pub const RESTART_DELAY_MIN: Duration = Duration::from_millis(100);
const RESTART_DELAY_MAX: Duration = Duration::from_secs(5);
/// A process that ran this long did not die early.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Restarts one process until it is stopped.
pub(super) async fn keep_running(registry: Arc<Registry>, name: String, mut process: Arc<Process>) {
    let mut delay = registry.restart_delay;
    loop {
        let started = Instant::now();
        let status = process.exited().await;
        if !record_exit(&registry, &name, status) {
            return;
        }
        if started.elapsed() >= STABLE_AFTER {
            delay = registry.restart_delay;
        }
        process = loop {
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(RESTART_DELAY_MAX);
            match respawn(&registry, &name) {
                Ok(Some(process)) => break process,
                Ok(None) => return,
                Err(error) => print(
                    &registry,
                    &format!("{name} could not be restarted: {error:#}"),
                ),
            }
        };
        print(
            &registry,
            &format!("{name} died ({}), restarted", describe(status)),
        );
    }
}

/// Stops a process gracefully, or cancels its pending restart.
pub(super) async fn stop(registry: &Registry, name: &str) -> anyhow::Result<()> {
    let (process, exits) = {
        let mut entries = registry.entries();
        let entry = find(&mut entries, name)?;
        entry.should_run = false;
        (entry.process.clone(), entry.exits.len())
    };
    let Some(process) = process else {
        return Ok(());
    };
    process.stop(STOP_GRACE).await;
    registry.wait_recorded(name, exits).await
}

/// Records an exit and returns whether to restart.
fn record_exit(registry: &Registry, name: &str, status: ExitStatus) -> bool {
    let again = {
        let mut entries = registry.entries();
        let Some(entry) = entries.get_mut(name) else {
            return false;
        };
        entry.process = None;
        entry.exits.push(status);
        entry.should_run && registry.restart
    };
    registry.changed();
    again
}

/// Starts the process again, unless it was stopped or started by a caller in between.
fn respawn(registry: &Registry, name: &str) -> anyhow::Result<Option<Arc<Process>>> {
    let process = {
        let mut entries = registry.entries();
        match entries.get_mut(name) {
            Some(entry) if entry.should_run && entry.process.is_none() => {
                let process = entry.spawn()?;
                entry.restarts += 1;
                process
            }
            _ => return Ok(None),
        }
    };
    registry.changed();
    Ok(Some(process))
}

fn print(registry: &Registry, message: &str) {
    if !registry.quiet {
        eprintln!("! {message}");
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown reason".to_owned(),
    }
}
