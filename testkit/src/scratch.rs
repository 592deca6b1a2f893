//! Temporary directories that are removed even if their process is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

const NAME_PREFIX: &str = "chargeonce-";
const LOCK_NAME: &str = "in-use";
/// A more recent directory is kept: its process may not have locked it yet.
const SWEEP_AGE: Duration = Duration::from_secs(60);

/// A fresh directory, removed when dropped.
///
/// Its process keeps a lock on a file in it. The kernel releases the lock when the process ends, and
/// the next process removes directories without a lock.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates one in the system's temporary directory. The checkout may be in a home directory that
    /// the `postgres` user cannot enter.
    pub fn new() -> anyhow::Result<Self> {
        let parent = std::env::temp_dir();
        sweep(&parent, SWEEP_AGE);
        Self::new_in(&parent)
    }

    fn new_in(parent: &Path) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(NAME_PREFIX)
            .tempdir_in(parent)
            .with_context(|| format!("cannot create a directory in {}", parent.display()))?;
        let lock = File::create(dir.path().join(LOCK_NAME))?;
        lock.try_lock().context("cannot lock a fresh directory")?;
        Ok(Scratch { dir, _lock: lock })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Keeps the directory and returns its path.
    pub fn keep(self) -> PathBuf {
        // The sweep ignores a directory without this file.
        let _ = std::fs::remove_file(self.dir.path().join(LOCK_NAME));
        self.dir.keep()
    }
}

/// Removes directories whose process has ended. Errors are ignored: the directory may belong to
/// another user.
fn sweep(parent: &Path, age_min: Duration) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with(NAME_PREFIX) && is_stale(&entry.path(), age_min) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_stale(dir: &Path, age_min: Duration) -> bool {
    let Ok(lock) = File::open(dir.join(LOCK_NAME)) else {
        return false;
    };
    let age = lock
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|modified| modified.elapsed().ok());
    age.is_some_and(|age| age >= age_min) && lock.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_of_a_dead_process_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::new_in(parent.path()).unwrap();
        let dead = parent.path().join("chargeonce-dead");
        let foreign = parent.path().join("chargeonce-notes");
        std::fs::create_dir(&dead).unwrap();
        std::fs::create_dir(&foreign).unwrap();
        File::create(dead.join(LOCK_NAME)).unwrap();

        sweep(parent.path(), Duration::from_secs(3600));
        assert!(dead.exists(), "too recent to be removed");

        sweep(parent.path(), Duration::ZERO);
        assert!(!dead.exists());
        assert!(alive.path().exists() && foreign.exists());
    }
}
