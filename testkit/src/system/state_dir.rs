//! The directory with a system's logs and its description.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::scratch::Scratch;

const LOCK_NAME: &str = "lock";
/// Where the mail sink keeps what it takes.
const MAILS_NAME: &str = "mails";

/// A directory that one system at a time may use.
#[derive(Debug)]
pub(super) enum StateDir {
    /// Named by the caller, and left as it is.
    Named { path: PathBuf, _lock: File },
    /// Ours, removed by [`StateDir::discard`] only: logs are of use after a failure.
    Fresh(Option<Scratch>),
}

impl StateDir {
    pub(super) fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        match path {
            None => Ok(StateDir::Fresh(Some(Scratch::new()?))),
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
            StateDir::Fresh(scratch) => scratch.as_ref().map_or(Path::new(""), Scratch::path),
        }
    }

    /// The mails of this system alone: those of an earlier one are gone.
    pub(super) fn mails(&self) -> PathBuf {
        self.path().join(MAILS_NAME)
    }

    /// Removes a directory of ours: the system ended well.
    pub(super) fn discard(mut self) {
        if let StateDir::Fresh(scratch) = &mut self {
            drop(scratch.take());
        }
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        if let StateDir::Fresh(scratch) = self
            && let Some(scratch) = scratch.take()
        {
            eprintln!("! the logs are kept in {}", scratch.keep().display());
        }
    }
}

/// The kernel drops the lock with the process, so a killed lab leaves none behind.
fn lock(path: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
    let lock = File::create(path.join(LOCK_NAME))?;
    lock.try_lock()
        .map_err(anyhow::Error::from)
        .with_context(|| {
            format!(
                "another lab is running a system in {}: stop it, or set CHARGEONCE_STATE_DIR",
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
