//! The stored mails: one file each, with names that sort by time.

use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

const EXTENSION: &str = "eml";

/// A stored mail. Two lines with its envelope come first.
#[derive(Debug, Clone)]
pub struct Mail {
    pub path: PathBuf,
    pub text: String,
}

impl Mail {
    /// The value of a one-line header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        head.lines().find_map(|line| {
            let (this, value) = line.split_once(':')?;
            this.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The recipient in the envelope.
    pub fn recipient(&self) -> &str {
        self.header(DELIVERED_TO).unwrap_or_default()
    }
}

const RETURN_PATH: &str = "Return-Path";
const DELIVERED_TO: &str = "Delivered-To";

/// Every mail that a sink has stored in this directory, the oldest first.
pub fn mails(dir: &Path) -> io::Result<Vec<Mail>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read(&path)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(Mail { path, text })
        })
        .collect()
}

/// Stores a mail. The file is renamed into place, so that a reader never sees half of it.
pub(super) fn store(dir: &Path, from: &str, to: &[String], content: &[u8]) -> io::Result<Mail> {
    let name = Uuid::now_v7().to_string();
    let draft = dir.join(&name).with_extension("draft");
    let to = to.join(", ");
    let mut text = format!("{RETURN_PATH}: <{from}>\r\n{DELIVERED_TO}: {to}\r\n").into_bytes();
    text.extend_from_slice(content);
    std::fs::write(&draft, &text)?;
    let path = dir.join(&name).with_extension(EXTENSION);
    std::fs::rename(&draft, &path)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(Mail { path, text })
}
