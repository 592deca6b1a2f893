//! The task beside each process: notes its death and starts the next incarnation.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::STOP_GRACE;
use super::registry::{Registry, find};
use crate::process::Process;

/// The wait before a restart; doubles while the process keeps dying young.
const RESTART_DELAY_MIN: Duration = Duration::from_millis(100);
const RESTART_DELAY_MAX: Duration = Duration::from_secs(5);
/// A process that lived this long did not die young.
const STEADY_LIFE: Duration = Duration::from_secs(10);

/// Keeps one name running until it is no longer wanted.
pub(super) async fn keep(registry: Arc<Registry>, name: String, mut process: Arc<Process>) {
    let mut delay = RESTART_DELAY_MIN;
    loop {
        let started = Instant::now();
        let status = process.exited().await;
        if !note_exit(&registry, &name, status) {
            return;
        }
        if started.elapsed() >= STEADY_LIFE {
            delay = RESTART_DELAY_MIN;
        }
        process = loop {
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(RESTART_DELAY_MAX);
            match respawn(&registry, &name) {
                Ok(Some(process)) => break process,
                Ok(None) => return,
                Err(error) => tell(&registry, &format!("{name} cannot be restarted: {error:#}")),
            }
        };
        tell(
            &registry,
            &format!("{name} died ({}), restarted", describe(status)),
        );
    }
}

/// Stops a process in good order, or takes back the wish to restart it.
pub(super) async fn stop(registry: &Registry, name: &str) -> anyhow::Result<()> {
    let (process, exits) = {
        let mut entries = registry.entries();
        let entry = find(&mut entries, name)?;
        entry.wanted = false;
        (entry.process.clone(), entry.exits.len())
    };
    let Some(process) = process else {
        return Ok(());
    };
    process.stop(STOP_GRACE).await;
    registry.settle(name, exits).await
}

/// Puts a death on record; says whether to start again.
fn note_exit(registry: &Registry, name: &str, status: ExitStatus) -> bool {
    let again = {
        let mut entries = registry.entries();
        let Some(entry) = entries.get_mut(name) else {
            return false;
        };
        entry.process = None;
        entry.exits.push(status);
        entry.wanted && registry.restart && entry.spec.restartable
    };
    registry.changed();
    again
}

/// The next incarnation; none if it was stopped, or started by hand, in the meantime.
fn respawn(registry: &Registry, name: &str) -> anyhow::Result<Option<Arc<Process>>> {
    let process = {
        let mut entries = registry.entries();
        match entries.get_mut(name) {
            Some(entry) if entry.wanted && entry.process.is_none() => {
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

fn tell(registry: &Registry, message: &str) {
    if !registry.quiet {
        eprintln!("! {message}");
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "for an unknown reason".to_owned(),
    }
}
