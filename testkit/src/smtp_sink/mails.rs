//! The stored mails: one file in the mbox format, which mail programs can open.
//!
//! A file per mail would make the sink the slowest part of a load test: file systems create files slowly.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use chrono::Utc;

/// The file with all mails.
pub const MAILBOX_NAME: &str = "mails.mbox";
/// The first word of the line before each mail. A line of a mail that begins with it is quoted.
const SEPARATOR: &str = "From ";
/// The empty line after each mail.
const END: &str = "\r\n";

const RETURN_PATH: &str = "Return-Path";
const DELIVERED_TO: &str = "Delivered-To";

/// A stored mail. Two lines with its envelope come first.
#[derive(Debug, Clone)]
pub struct Mail {
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

/// Every mail that a sink has stored in this directory, the oldest first. A mail that is being written is
/// not there yet.
pub fn mails(dir: &Path) -> io::Result<Vec<Mail>> {
    let text = match std::fs::read(dir.join(MAILBOX_NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// Appends a mail, in one write.
pub(super) fn store(dir: &Path, from: &str, to: &[String], content: &[u8]) -> io::Result<Mail> {
    let to = to.join(", ");
    let content = String::from_utf8_lossy(content);
    let text = format!("{RETURN_PATH}: <{from}>\r\n{DELIVERED_TO}: {to}\r\n{content}");
    // Opened for each mail: a reset of the system removes the file.
    let path = dir.join(MAILBOX_NAME);
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(entry(&text).as_bytes())?;
    Ok(Mail { text })
}

fn entry(text: &str) -> String {
    let date = Utc::now().format("%a %b %e %H:%M:%S %Y");
    let mut entry = format!("{SEPARATOR}sink {date}\r\n");
    for line in text.split_inclusive('\n') {
        if is_separator(line.trim_start_matches('>')) {
            entry.push('>');
        }
        entry.push_str(line);
    }
    entry.push_str(END);
    entry
}

fn parse(text: &str) -> Vec<Mail> {
    let mut mails: Vec<Mail> = Vec::new();
    for line in text.split_inclusive('\n') {
        if is_separator(line) {
            let text = String::new();
            mails.push(Mail { text });
        } else if let Some(mail) = mails.last_mut() {
            let is_quoted = is_separator(line.trim_start_matches('>'));
            mail.text.push_str(&line[usize::from(is_quoted)..]);
        }
    }
    // A mail without its end is being written.
    mails.retain_mut(|mail| {
        let whole = mail.text.strip_suffix(END).map(str::len);
        mail.text.truncate(whole.unwrap_or_default());
        mail.text.ends_with("\r\n")
    });
    mails
}

fn is_separator(line: &str) -> bool {
    line.starts_with(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 2] = [
        "Subject: one\r\n\r\nFrom here on\r\n>From there\r\n\r\n",
        "Subject: two\r\n\r\nlast line\r\n",
    ];

    fn texts(mails: Vec<Mail>) -> Vec<String> {
        mails.into_iter().map(|mail| mail.text).collect()
    }

    #[test]
    fn mails_are_read_as_they_were_written() {
        let file: String = TEXTS.iter().map(|text| entry(text)).collect();
        assert_eq!(texts(parse(&file)), TEXTS);
    }

    #[test]
    fn half_of_a_mail_is_not_read() {
        let file = entry(TEXTS[0]) + &entry(TEXTS[1]);
        let half = &file[..file.len() - "line\r\n\r\n".len()];
        assert_eq!(texts(parse(half)), TEXTS[..1]);
    }
}
