//! The directory with a system's logs, mails and description.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::scratch::Scratch;

const LOCK_NAME: &str = "lock";
/// Where the mail sink stores mails.
const MAILS_NAME: &str = "mails";

/// A directory that one system at a time may use.
#[derive(Debug)]
pub(super) enum StateDir {
    /// Named by the caller, and kept.
    Named { path: PathBuf, _lock: File },
    /// Temporary. Only [`StateDir::discard`] removes it, because logs are useful after a failure.
    Temporary(Option<Scratch>),
}

impl StateDir {
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        match path {
            None => Ok(StateDir::Temporary(Some(Scratch::new()?))),
            Some(path) => {
                let lock = lock(path)?;
                remove_old_logs(path)?;
                remove_old_mails(path)?;
                Ok(StateDir::Named {
                    path: path.to_owned(),
                    _lock: lock,
                })
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            StateDir::Named { path, .. } => path,
            StateDir::Temporary(scratch) => scratch.as_ref().map_or(Path::new(""), Scratch::path),
        }
    }

    /// The mails of this system. Those of an earlier one were removed.
    pub(super) fn mails(&self) -> PathBuf {
        self.path().join(MAILS_NAME)
    }

    /// Removes a temporary directory after a clean stop.
    pub(super) fn discard(mut self) {
        if let StateDir::Temporary(scratch) = &mut self {
            drop(scratch.take());
        }
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        if let StateDir::Temporary(scratch) = self
            && let Some(scratch) = scratch.take()
        {
            eprintln!("! logs: {}", scratch.keep().display());
        }
    }
}

/// The kernel releases the lock with the process, so a killed lab leaves no lock.
fn lock(path: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
    let lock = File::create(path.join(LOCK_NAME))?;
    lock.try_lock()
        .map_err(anyhow::Error::from)
        .with_context(|| {
            format!(
                "another lab runs a system in {}: stop it, or set CHARGEONCE_STATE_DIR",
                path.display()
            )
        })?;
    Ok(lock)
}

fn remove_old_logs(path: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn remove_old_mails(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(path.join(MAILS_NAME)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
