//! Temporary directories that even a killed lab does not leave behind for good.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;

const NAME_PREFIX: &str = "chargeonce-";
const LOCK_NAME: &str = "in-use";
/// A younger directory is left alone: its lab may not have locked it yet.
const SWEEP_AGE: Duration = Duration::from_secs(60);

/// A fresh directory, removed when dropped.
///
/// While its lab lives, a file in it is locked; the kernel drops the lock with the process, and
/// the next lab sweeps what is not locked.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates one below the system's temporary directory. Not below the clone: that may be in a
    /// home directory which the `postgres` user cannot enter.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves it to the user and says where it is.
    pub fn keep(self) -> PathBuf {
        // Without the file the sweep does not take it for ours.
        let _ = std::fs::remove_file(self.dir.path().join(LOCK_NAME));
        self.dir.keep()
    }
}

/// Removes directories whose lab is gone. What cannot be read or removed is not ours to mind.
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
    fn a_directory_of_a_dead_lab_is_swept_and_a_living_one_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::new_in(parent.path()).unwrap();
        let dead = parent.path().join("chargeonce-dead");
        let foreign = parent.path().join("chargeonce-notes");
        std::fs::create_dir(&dead).unwrap();
        std::fs::create_dir(&foreign).unwrap();
        File::create(dead.join(LOCK_NAME)).unwrap();

        sweep(parent.path(), Duration::from_secs(3600));
        assert!(dead.exists(), "it is too young to judge");

        sweep(parent.path(), Duration::ZERO);
        assert!(!dead.exists());
        assert!(alive.path().exists() && foreign.exists());
    }
}
