//! How the sink can be told to misbehave: a file beside the mails, so that any process can.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use serde::{Deserialize, Serialize};

const FILE_NAME: &str = "behaviour.json";

/// What goes wrong, and how often before all is well again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    pub action: Action,
    pub times: u32,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The connection breaks when the sender is named: there is no mail yet.
    Disconnect,
    /// The recipient is answered with this code.
    RejectRecipient(u16),
    /// The content is answered with this code, and the mail is not kept.
    RejectContent(u16),
    /// The mail is kept, and the connection breaks instead of an answer.
    LoseReply,
    /// The mail is kept, and no answer ever comes.
    Hang,
}

/// A step of the dialogue at which something can go wrong.
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

/// Tells the sink that keeps its mails there to misbehave from now on.
pub fn set(mails_dir: &Path, behaviour: Behaviour) -> anyhow::Result<()> {
    let path = mails_dir.join(FILE_NAME);
    // Renamed into place: whoever reads the file reads all of it. The name is the writer's own: the
    // sink writes here as well.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    std::fs::write(&draft, serde_json::to_vec(&behaviour)?)
        .and_then(|()| std::fs::rename(&draft, &path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The sink's side of it.
pub(super) struct Switch {
    pub(super) mails_dir: PathBuf,
    /// Sessions count down one after the other.
    turn: Mutex<()>,
}

impl Switch {
    pub(super) fn new(mails_dir: PathBuf) -> Self {
        Switch {
            mails_dir,
            turn: Mutex::new(()),
        }
    }

    /// What is to go wrong at this point, counted down. Without a file nothing is.
    pub(super) fn take(&self, point: Point) -> Option<Action> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn it_goes_wrong_as_often_as_told_and_only_where_told() {
        let dir = tempfile::tempdir().unwrap();
        let switch = Switch::new(dir.path().to_owned());
        assert_eq!(switch.take(Point::Content), None);
        let behaviour = Behaviour {
            action: Action::RejectContent(451),
            times: 2,
        };
        set(dir.path(), behaviour).unwrap();
        assert_eq!(switch.take(Point::Recipient), None);
        assert_eq!(switch.take(Point::Content), Some(behaviour.action));
        assert_eq!(switch.take(Point::Content), Some(behaviour.action));
        assert_eq!(switch.take(Point::Content), None);
    }
}
