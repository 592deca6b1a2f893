//! One client's dialogue with the sink (RFC 5321).

use std::future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::behaviour::{Action, Point, Switch};
use super::mails;

/// Longest command line; twice what the standard asks for, with room for extensions.
const COMMAND_BYTES_MAX: usize = 1_024;
/// Largest mail.
const MAIL_BYTES_MAX: usize = 1024 * 1024;
/// Most recipients of one mail; the least that the standard allows.
const RECIPIENTS_MAX: usize = 100;
/// A client that says nothing for so long is gone.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// Whether the dialogue goes on.
enum Next {
    Answer(String),
    /// Answers, and hangs up.
    Close(String),
    /// Hangs up without a word.
    Break,
}

struct Session<'a> {
    stream: BufReader<TcpStream>,
    switch: &'a Switch,
    from: Option<String>,
    to: Vec<String>,
}

pub(super) async fn attend(stream: TcpStream, switch: &Switch) -> io::Result<()> {
    let mut session = Session {
        stream: BufReader::new(stream),
        switch,
        from: None,
        to: Vec::new(),
    };
    session.answer("220 chargeonce mail sink").await?;
    loop {
        let Ok(line) = tokio::time::timeout(IDLE_MAX, session.line(COMMAND_BYTES_MAX)).await else {
            return session.answer("421 too slow").await;
        };
        let line = line?;
        if line.is_empty() {
            return Ok(());
        }
        if !line.ends_with(b"\n") {
            return session.answer("500 too long").await;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        match session.obey(&line).await? {
            Next::Answer(answer) => session.answer(&answer).await?,
            Next::Close(answer) => return session.answer(&answer).await,
            Next::Break => return Ok(()),
        }
    }
}

impl Session<'_> {
    async fn answer(&mut self, text: &str) -> io::Result<()> {
        let line = format!("{text}\r\n");
        self.stream.get_mut().write_all(line.as_bytes()).await
    }

    /// The next line with its end; without one if it is longer than this or the last; empty at the
    /// end.
    async fn line(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(bytes_max as u64);
        limited.read_until(b'\n', &mut line).await?;
        Ok(line)
    }

    async fn obey(&mut self, line: &str) -> io::Result<Next> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let answer = match verb.to_ascii_uppercase().as_str() {
            "EHLO" => {
                self.reset();
                let size = format!("SIZE {MAIL_BYTES_MAX}");
                let lines = ["chargeonce", "8BITMIME", "SMTPUTF8", "PIPELINING", &size];
                let (last, others) = lines.split_last().unwrap_or((&"", &[]));
                let others: String = others.iter().map(|it| format!("250-{it}\r\n")).collect();
                format!("{others}250 {last}")
            }
            "HELO" => {
                self.reset();
                "250 chargeonce".to_owned()
            }
            "MAIL" => return Ok(self.sender(rest)),
            "RCPT" => self.recipient(rest),
            "DATA" => return self.data().await,
            "RSET" => {
                self.reset();
                "250 forgotten".to_owned()
            }
            "NOOP" => "250 here".to_owned(),
            "VRFY" => "252 send it and see".to_owned(),
            "QUIT" => return Ok(Next::Close("221 bye".to_owned())),
            _ => "502 not here".to_owned(),
        };
        Ok(Next::Answer(answer))
    }

    fn reset(&mut self) {
        self.from = None;
        self.to.clear();
    }

    fn sender(&mut self, rest: &str) -> Next {
        let answer = match address(rest, "FROM:") {
            _ if self.from.is_some() => "503 one sender is enough",
            None => "501 MAIL FROM:<address>",
            Some(_) if self.switch.take(Point::Sender).is_some() => return Next::Break,
            Some(from) => {
                self.from = Some(from);
                "250 go on"
            }
        };
        Next::Answer(answer.to_owned())
    }

    fn recipient(&mut self, rest: &str) -> String {
        let to = match address(rest, "TO:") {
            _ if self.from.is_none() => return "503 MAIL first".to_owned(),
            None => return "501 RCPT TO:<address>".to_owned(),
            Some(_) if self.to.len() >= RECIPIENTS_MAX => return "452 too many".to_owned(),
            Some(to) => to,
        };
        match self.switch.take(Point::Recipient) {
            Some(Action::RejectRecipient(code)) => format!("{code} refused as told"),
            _ => {
                self.to.push(to);
                "250 go on".to_owned()
            }
        }
    }

    async fn data(&mut self) -> io::Result<Next> {
        let (Some(from), false) = (self.from.take(), self.to.is_empty()) else {
            return Ok(Next::Answer("503 MAIL and RCPT first".to_owned()));
        };
        let to = std::mem::take(&mut self.to);
        self.answer("354 end with a dot on a line of its own")
            .await?;
        let content = match tokio::time::timeout(IDLE_MAX, self.content()).await {
            Ok(content) => content?,
            Err(_) => return Ok(Next::Break),
        };
        let Some(content) = content else {
            return Ok(Next::Answer("552 too large".to_owned()));
        };
        let action = self.switch.take(Point::Content);
        if let Some(Action::RejectContent(code)) = action {
            return Ok(Next::Answer(format!("{code} refused as told")));
        }
        let mail = mails::keep(&self.switch.mails_dir, &from, &to, &content)?;
        let subject = mail.header("Subject").unwrap_or_default();
        eprintln!("mail to {}: {subject}", mail.recipient());
        match action {
            Some(Action::LoseReply) => Ok(Next::Break),
            // For as long as the sink lives, whatever the client does.
            Some(Action::Hang) => future::pending().await,
            _ => Ok(Next::Answer("250 kept".to_owned())),
        }
    }

    /// The mail up to the lonely dot, without the dots that the client doubled; `None` if it is too
    /// large, in which case it was read to its end all the same.
    async fn content(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut content = Vec::new();
        let mut is_too_large = false;
        loop {
            let line = self.line(MAIL_BYTES_MAX).await?;
            if line.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if line == b".\r\n" {
                return Ok((!is_too_large).then_some(content));
            }
            let line = line.strip_prefix(b".").unwrap_or(&line);
            is_too_large |= content.len() + line.len() > MAIL_BYTES_MAX;
            if !is_too_large {
                content.extend_from_slice(line);
            }
        }
    }
}

/// The address in `FROM:<address> …`; the empty one is a sender, too.
fn address(rest: &str, label: &str) -> Option<String> {
    let rest = rest.trim_start();
    let (found, rest) = rest.split_at_checked(label.len())?;
    let (address, _) = rest.trim_start().strip_prefix('<')?.split_once('>')?;
    found
        .eq_ignore_ascii_case(label)
        .then(|| address.to_owned())
}
