//! What a supervisor knows about one process.

use std::process::ExitStatus;
use std::time::SystemTime;

use super::registry::Entry;
use crate::process::is_paused;

/// A process and its history.
#[derive(Debug, Clone)]
pub struct ProcessStatus {
    pub name: String,
    /// None between a death and the restart, and after a stop.
    pub pid: Option<u32>,
    /// Whether it is stopped by SIGSTOP.
    pub is_paused: bool,
    /// When the current or last process was started.
    pub started_at: SystemTime,
    /// How many times it was restarted.
    pub restarts: u32,
    /// How many times it ended, and how the last time.
    pub exits: usize,
    pub last_exit: Option<ExitStatus>,
}

impl ProcessStatus {
    pub(super) fn of(name: &str, entry: &Entry) -> Self {
        let pid = entry.process.as_ref().map(|process| process.pid());
        Self {
            name: name.to_owned(),
            pid,
            is_paused: pid.is_some_and(is_paused),
            started_at: entry.started_at,
            restarts: entry.restarts,
            exits: entry.exits.len(),
            last_exit: entry.exits.last().copied(),
        }
    }
}
