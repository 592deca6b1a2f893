//! One SMTP session (RFC 5321).

use std::future;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::behaviour::{Action, Faults, Point};
use super::mails;

/// Longest command line: twice the minimum that the standard requires, with space for extensions.
const COMMAND_BYTES_MAX: usize = 1_024;
/// Largest mail.
const MAIL_BYTES_MAX: usize = 1024 * 1024;
/// Most recipients of one mail: the minimum that the standard requires.
const RECIPIENTS_MAX: usize = 100;
/// A client that sends nothing for this long is disconnected.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// What the sink does after a command.
enum Next {
    Reply(String),
    /// Replies and closes the connection.
    ReplyAndClose(String),
    /// Closes the connection without a reply.
    Disconnect,
}

struct Session<'a> {
    stream: BufReader<TcpStream>,
    /// Replies that are not sent yet.
    replies: Vec<u8>,
    faults: &'a Faults,
    from: Option<String>,
    to: Vec<String>,
}

pub(super) async fn serve(stream: TcpStream, faults: &Faults) -> io::Result<()> {
    let mut session = Session {
        stream: BufReader::new(stream),
        replies: Vec::new(),
        faults,
        from: None,
        to: Vec::new(),
    };
    session.reply("220 chargeonce mail sink").await?;
    loop {
        let Ok(line) = tokio::time::timeout(IDLE_MAX, session.line(COMMAND_BYTES_MAX)).await else {
            session.reply("421 timed out").await?;
            return session.flush().await;
        };
        let line = line?;
        if line.is_empty() {
            return Ok(());
        }
        if !line.ends_with(b"\n") {
            session.reply("500 line too long").await?;
            return session.flush().await;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        match session.execute(&line).await? {
            Next::Reply(reply) => session.reply(&reply).await?,
            Next::ReplyAndClose(reply) => {
                session.reply(&reply).await?;
                return session.flush().await;
            }
            Next::Disconnect => return Ok(()),
        }
    }
}

impl Session<'_> {
    /// Replies to commands that arrived together are sent together: the second of two small writes
    /// would wait until the client has acknowledged the first.
    async fn reply(&mut self, text: &str) -> io::Result<()> {
        self.replies.extend_from_slice(text.as_bytes());
        self.replies.extend_from_slice(b"\r\n");
        match self.stream.buffer().is_empty() {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let replies = std::mem::take(&mut self.replies);
        self.stream.get_mut().write_all(&replies).await
    }

    /// The next line with its line end. A line that is too long, or cut off, has no line end. At the
    /// end of the stream it is empty.
    async fn line(&mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(bytes_max as u64);
        limited.read_until(b'\n', &mut line).await?;
        Ok(line)
    }

    async fn execute(&mut self, line: &str) -> io::Result<Next> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let reply = match verb.to_ascii_uppercase().as_str() {
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
                "250 reset".to_owned()
            }
            "NOOP" => "250 ok".to_owned(),
            "VRFY" => "252 cannot verify, will accept".to_owned(),
            "QUIT" => return Ok(Next::ReplyAndClose("221 bye".to_owned())),
            _ => "502 not implemented".to_owned(),
        };
        Ok(Next::Reply(reply))
    }

    fn reset(&mut self) {
        self.from = None;
        self.to.clear();
    }

    fn sender(&mut self, rest: &str) -> Next {
        let reply = match address(rest, "FROM:") {
            _ if self.from.is_some() => "503 sender already given",
            None => "501 MAIL FROM:<address>",
            Some(_) if self.faults.take(Point::Sender).is_some() => return Next::Disconnect,
            Some(from) => {
                self.from = Some(from);
                "250 ok"
            }
        };
        Next::Reply(reply.to_owned())
    }

    fn recipient(&mut self, rest: &str) -> String {
        let to = match address(rest, "TO:") {
            _ if self.from.is_none() => return "503 MAIL first".to_owned(),
            None => return "501 RCPT TO:<address>".to_owned(),
            Some(_) if self.to.len() >= RECIPIENTS_MAX => {
                return "452 too many recipients".to_owned();
            }
            Some(to) => to,
        };
        match self.faults.take(Point::Recipient) {
            Some(Action::RejectRecipient(code)) => format!("{code} rejected on request"),
            _ => {
                self.to.push(to);
                "250 ok".to_owned()
            }
        }
    }

    async fn data(&mut self) -> io::Result<Next> {
        let (Some(from), false) = (self.from.take(), self.to.is_empty()) else {
            return Ok(Next::Reply("503 MAIL and RCPT first".to_owned()));
        };
        let to = std::mem::take(&mut self.to);
        self.reply("354 end with a line that contains only a dot")
            .await?;
        let content = match tokio::time::timeout(IDLE_MAX, self.content()).await {
            Ok(content) => content?,
            Err(_) => return Ok(Next::Disconnect),
        };
        let Some(content) = content else {
            return Ok(Next::Reply("552 mail too large".to_owned()));
        };
        let action = self.faults.take(Point::Content);
        if let Some(Action::RejectContent(code)) = action {
            return Ok(Next::Reply(format!("{code} rejected on request")));
        }
        let mail = mails::store(&self.faults.mails_dir, &from, &to, &content)?;
        let subject = mail.header("Subject").unwrap_or_default();
        eprintln!("mail to {}: {subject}", mail.recipient());
        match action {
            Some(Action::LoseReply) => Ok(Next::Disconnect),
            // Until the sink stops, no matter what the client does.
            Some(Action::Hang) => future::pending().await,
            _ => Ok(Next::Reply("250 stored".to_owned())),
        }
    }

    /// The mail up to the line with a single dot, without the dots that the client doubled. `None` if
    /// it is too large; it is still read to its end.
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

/// The address in `FROM:<address> …`. A sender may be empty.
fn address(rest: &str, label: &str) -> Option<String> {
    let rest = rest.trim_start();
    let (found, rest) = rest.split_at_checked(label.len())?;
    let (address, _) = rest.trim_start().strip_prefix('<')?.split_once('>')?;
    found
        .eq_ignore_ascii_case(label)
        .then(|| address.to_owned())
}
