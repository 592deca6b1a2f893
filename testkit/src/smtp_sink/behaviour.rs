//! Faults of the sink. They are set with a file next to the mails, so that any process can set them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use serde::{Deserialize, Serialize};

const FILE_NAME: &str = "behaviour.json";

/// What goes wrong, and how many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    pub action: Action,
    pub times: u32,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The connection closes at MAIL FROM, before any mail exists.
    Disconnect,
    /// RCPT TO gets this code.
    RejectRecipient(u16),
    /// DATA gets this code, and the mail is not stored.
    RejectContent(u16),
    /// The mail is stored, and the connection closes without a reply.
    LoseReply,
    /// The mail is stored, and the reply never comes.
    Hang,
}

/// A step of the session at which a fault can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Sender,
    Recipient,
    Content,
}

impl Action {
    fn point(self) -> Point {
        match self {
            Action::Disconnect => Point::Sender,
            Action::RejectRecipient(_) => Point::Recipient,
            Action::RejectContent(_) | Action::LoseReply | Action::Hang => Point::Content,
        }
    }
}

/// Sets the fault of the sink that stores its mails in this directory.
pub fn set(mails_dir: &Path, behaviour: Behaviour) -> anyhow::Result<()> {
    let path = mails_dir.join(FILE_NAME);
    // Renamed into place, so that a reader never sees half of it. The draft's name contains the
    // writer's process id, because the sink also writes here.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    std::fs::write(&draft, serde_json::to_vec(&behaviour)?)
        .and_then(|()| std::fs::rename(&draft, &path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Removes the fault.
pub fn clear(mails_dir: &Path) -> anyhow::Result<()> {
    // A fault that happens no more times is no fault.
    let behaviour = Behaviour {
        action: Action::Hang,
        times: 0,
    };
    set(mails_dir, behaviour)
}

/// Reads the faults on the sink's side.
pub(super) struct Faults {
    pub(super) mails_dir: PathBuf,
    /// Sessions count down one after the other.
    countdown: Mutex<()>,
}

impl Faults {
    pub(super) fn new(mails_dir: PathBuf) -> Self {
        Faults {
            mails_dir,
            countdown: Mutex::new(()),
        }
    }

    /// The fault at this step, if one is set. Counts it down.
    pub(super) fn take(&self, point: Point) -> Option<Action> {
        let _guard = self
            .countdown
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let text = std::fs::read(self.mails_dir.join(FILE_NAME)).ok()?;
        let behaviour: Behaviour = serde_json::from_slice(&text).ok()?;
        if behaviour.times == 0 || behaviour.action.point() != point {
            return None;
        }
        let left = Behaviour {
            times: behaviour.times - 1,
            ..behaviour
        };
        if let Err(error) = set(&self.mails_dir, left) {
            eprintln!("{error:#}");
        }
        Some(behaviour.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_happens_the_set_number_of_times_at_its_step() {
        let dir = tempfile::tempdir().unwrap();
        let faults = Faults::new(dir.path().to_owned());
        assert_eq!(faults.take(Point::Content), None);
        let behaviour = Behaviour {
            action: Action::RejectContent(451),
            times: 2,
        };
        set(dir.path(), behaviour).unwrap();
        assert_eq!(faults.take(Point::Recipient), None);
        assert_eq!(faults.take(Point::Content), Some(behaviour.action));
        assert_eq!(faults.take(Point::Content), Some(behaviour.action));
        assert_eq!(faults.take(Point::Content), None);
    }
}
