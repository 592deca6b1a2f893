//! Keeps processes running. A process that dies is restarted; a process that is stopped stays down.

mod registry;
mod restarter;
mod status;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::Signal;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::process::{Process, Spec};
use registry::{Entry, Registry};
use restarter::{keep_running, stop};

pub use restarter::RESTART_DELAY_MIN;
pub use status::ProcessStatus;

/// How long a process may take to stop gracefully before it is killed.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// Runs named processes. Dropping it ends them all immediately.
#[derive(Debug)]
pub struct Supervisor {
    registry: Arc<Registry>,
    /// Restarts processes as long as the supervisor exists, whichever runtime calls its methods.
    runtime: Handle,
}

impl Supervisor {
    /// `restart`: whether a process that dies is restarted. `quiet`: print nothing. Call it on a tokio
    /// runtime that outlives the supervisor.
    pub fn new(restart: bool, quiet: bool) -> Self {
        Self::with_restart_delay(restart, quiet, RESTART_DELAY_MIN)
    }

    /// The same with another wait before the first restart.
    pub fn with_restart_delay(restart: bool, quiet: bool, delay: Duration) -> Self {
        Supervisor {
            registry: Arc::new(Registry::new(restart, quiet, delay)),
            runtime: Handle::current(),
        }
    }

    /// Starts a process under a new name. A restart does not get `first_env`.
    pub fn start(
        &self,
        name: &str,
        spec: Spec,
        first_env: &[(String, String)],
    ) -> anyhow::Result<()> {
        let process = Arc::new(Process::spawn(&spec, first_env)?);
        let entry = Entry::new(spec, Arc::clone(&process));
        self.registry.entries().insert(name.to_owned(), entry);
        self.registry.changed();
        self.runtime.spawn(keep_running(
            Arc::clone(&self.registry),
            name.to_owned(),
            process,
        ));
        Ok(())
    }

    /// Starts a process that was stopped, or that died and is not restarted.
    pub fn start_again(&self, name: &str) -> anyhow::Result<()> {
        let process = {
            let mut entries = self.registry.entries();
            let entry = registry::find(&mut entries, name)?;
            if entry.process.is_some() {
                bail!("{name} is already running");
            }
            entry.should_run = true;
            entry.spawn()?
        };
        self.registry.changed();
        self.runtime.spawn(keep_running(
            Arc::clone(&self.registry),
            name.to_owned(),
            process,
        ));
        Ok(())
    }

    /// Sets a variable of the environment for the next start of a process.
    pub fn set_env(&self, name: &str, variable: &str, value: &str) -> anyhow::Result<()> {
        let mut entries = self.registry.entries();
        let entry = registry::find(&mut entries, name)?;
        // The last value counts.
        let variable = (variable.to_owned(), value.to_owned());
        entry.spec.env.push(variable);
        Ok(())
    }

    /// Removes a variable that [`Supervisor::set_env`] has set, for the next start of a process.
    pub fn remove_env(&self, name: &str, variable: &str) -> anyhow::Result<()> {
        let mut entries = self.registry.entries();
        let entry = registry::find(&mut entries, name)?;
        entry.spec.env.retain(|(known, _)| known != variable);
        Ok(())
    }

    /// Sets the program for the next start of a process.
    pub(crate) fn set_program(&self, name: &str, program: PathBuf) -> anyhow::Result<()> {
        let mut entries = self.registry.entries();
        registry::find(&mut entries, name)?.spec.program = program;
        Ok(())
    }

    /// Stops a process gracefully and keeps it down. Does nothing if it is down.
    pub async fn stop(&self, name: &str) -> anyhow::Result<()> {
        stop(&self.registry, name).await
    }

    /// Stops several processes in parallel.
    pub(crate) async fn stop_all(
        &self,
        names: impl IntoIterator<Item = String>,
    ) -> anyhow::Result<()> {
        let mut stops = JoinSet::new();
        for name in names {
            let registry = Arc::clone(&self.registry);
            stops.spawn(async move { stop(&registry, &name).await });
        }
        stops.join_all().await.into_iter().collect()
    }

    /// Kills a process (SIGKILL) and waits until it is gone.
    pub async fn kill(&self, name: &str) -> anyhow::Result<()> {
        let (process, exits) = {
            let mut entries = self.registry.entries();
            let entry = registry::find(&mut entries, name)?;
            let process = entry.process.clone();
            (
                process.with_context(|| format!("{name} is not running"))?,
                entry.exits.len(),
            )
        };
        // A paused child of Postgres would not notice the death, and would block the restart.
        process.signal_children(Signal::CONT);
        process.signal(Signal::KILL);
        self.registry.wait_recorded(name, exits).await
    }

    /// Pauses a process (SIGSTOP). Postgres runs one process per connection, so its children pause too.
    pub fn pause(&self, name: &str) -> anyhow::Result<()> {
        self.running(name)?.signal_with_children(Signal::STOP);
        self.registry.changed();
        Ok(())
    }

    /// Resumes a paused process (SIGCONT).
    pub fn resume(&self, name: &str) -> anyhow::Result<()> {
        self.running(name)?.signal_with_children(Signal::CONT);
        self.registry.changed();
        Ok(())
    }

    fn running(&self, name: &str) -> anyhow::Result<Arc<Process>> {
        let mut entries = self.registry.entries();
        let process = registry::find(&mut entries, name)?.process.clone();
        process.with_context(|| format!("{name} is not running"))
    }

    /// Every process, running or not, with its history.
    pub fn processes(&self) -> Vec<ProcessStatus> {
        let entries = self.registry.entries();
        let all = entries.iter();
        all.map(|(name, entry)| ProcessStatus::of(name, entry))
            .collect()
    }

    /// Waits for the next exit that no earlier call has returned. Exits by [`Supervisor::kill`] and
    /// [`Supervisor::stop`] do not count.
    pub async fn wait_exit(&self, name: &str, timeout: Duration) -> anyhow::Result<ExitStatus> {
        let mut changes = self.changes();
        let next = async {
            loop {
                changes.mark_unchanged();
                if let Some(status) =
                    registry::find(&mut self.registry.entries(), name)?.next_exit()
                {
                    return Ok(status);
                }
                changes.changed().await?;
            }
        };
        tokio::time::timeout(timeout, next)
            .await
            .with_context(|| format!("{name} did not exit within {timeout:?}"))?
    }

    /// The current process id.
    pub fn pid(&self, name: &str) -> Option<u32> {
        let entries = self.registry.entries();
        Some(entries.get(name)?.process.as_ref()?.pid())
    }

    /// Every running process by name.
    pub fn pids(&self) -> BTreeMap<String, u32> {
        self.registry.pids()
    }

    /// [`Supervisor::pids`] as a function that a task can own.
    pub(crate) fn pids_handle(&self) -> impl Fn() -> BTreeMap<String, u32> + Send + 'static {
        let registry = Arc::clone(&self.registry);
        move || registry.pids()
    }

    /// The names of all processes, running or not.
    pub fn names(&self) -> Vec<String> {
        self.registry.entries().keys().cloned().collect()
    }

    /// How many times a process was restarted.
    pub fn restarts(&self, name: &str) -> u32 {
        self.registry
            .entries()
            .get(name)
            .map_or(0, |entry| entry.restarts)
    }

    /// Every exit so far, oldest first.
    pub fn exits(&self, name: &str) -> Vec<ExitStatus> {
        let entries = self.registry.entries();
        entries
            .get(name)
            .map_or_else(Vec::new, |entry| entry.exits.clone())
    }

    /// Whether a process that dies is restarted.
    pub(crate) fn restarts_processes(&self) -> bool {
        self.registry.restart
    }

    /// Changes whenever a process starts or ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // Dropping the entries removes the files of the processes, so the processes end first.
        let entries = std::mem::take(&mut *self.registry.entries());
        let processes = || entries.values().filter_map(|entry| entry.process.as_ref());
        processes().for_each(|process| process.abort());
        processes().for_each(|process| process.end_now());
    }
}
