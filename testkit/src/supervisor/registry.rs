//! The state of each supervised process.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use tokio::sync::watch;

use crate::process::{Process, Spec};

/// All processes by name, shared by the supervisor and the tasks that restart them.
#[derive(Debug)]
pub(super) struct Registry {
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Incremented at every start and every exit.
    changes: watch::Sender<u64>,
    pub(super) restart: bool,
    pub(super) quiet: bool,
    /// The wait before the first restart.
    pub(super) restart_delay: Duration,
}

/// One supervised process and its history.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) spec: Spec,
    /// The current process; none between an exit and the restart.
    pub(super) process: Option<Arc<Process>>,
    /// Whether it should run: false after a stop.
    pub(super) should_run: bool,
    pub(super) restarts: u32,
    /// When the current or last process was started.
    pub(super) started_at: SystemTime,
    /// Every exit so far.
    pub(super) exits: Vec<ExitStatus>,
    /// How many of them are returned by `wait_exit`, or hidden from it.
    exits_seen: usize,
}

impl Registry {
    pub(super) fn new(restart: bool, quiet: bool, restart_delay: Duration) -> Self {
        Registry {
            entries: Mutex::default(),
            changes: watch::Sender::new(0),
            restart,
            quiet,
            restart_delay,
        }
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changed(&self) {
        self.changes.send_modify(|version| *version += 1);
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Every running process by name.
    pub(super) fn pids(&self) -> BTreeMap<String, u32> {
        let pid = |entry: &Entry| entry.process.as_ref().map(|process| process.pid());
        self.entries()
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), pid(entry)?)))
            .collect()
    }

    /// Waits until an exit after the first `exits` is recorded, and hides it from `wait_exit`.
    pub(super) async fn wait_recorded(&self, name: &str, exits: usize) -> anyhow::Result<()> {
        let mut changes = self.changes();
        while !self.hide_exit(name, exits)? {
            changes.changed().await?;
        }
        Ok(())
    }

    fn hide_exit(&self, name: &str, exits: usize) -> anyhow::Result<bool> {
        let mut entries = self.entries();
        let entry = find(&mut entries, name)?;
        let is_recorded = entry.exits.len() > exits;
        if is_recorded {
            entry.exits_seen = entry.exits_seen.max(exits + 1);
        }
        Ok(is_recorded)
    }
}

impl Entry {
    pub(super) fn new(spec: Spec, process: Arc<Process>) -> Self {
        Entry {
            spec,
            process: Some(process),
            should_run: true,
            restarts: 0,
            started_at: SystemTime::now(),
            exits: Vec::new(),
            exits_seen: 0,
        }
    }

    /// Starts the process.
    pub(super) fn spawn(&mut self) -> anyhow::Result<Arc<Process>> {
        let process = Arc::new(Process::spawn(&self.spec, &[])?);
        self.process = Some(Arc::clone(&process));
        self.started_at = SystemTime::now();
        Ok(process)
    }

    /// The oldest exit that `wait_exit` has not returned.
    pub(super) fn next_exit(&mut self) -> Option<ExitStatus> {
        let status = self.exits.get(self.exits_seen).copied()?;
        self.exits_seen += 1;
        Some(status)
    }
}

/// The entry of a name that must exist.
pub(super) fn find<'a>(
    entries: &'a mut BTreeMap<String, Entry>,
    name: &str,
) -> anyhow::Result<&'a mut Entry> {
    entries
        .get_mut(name)
        .with_context(|| format!("no process is named {name}"))
}
