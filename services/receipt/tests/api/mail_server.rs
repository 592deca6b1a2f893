//! A mail server that counts what it is asked, for tests of the dialogue itself.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// How the server treats its clients.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rules {
    /// Offers PIPELINING, and responds to MAIL only after RCPT and DATA have arrived.
    pub(crate) pipelining: bool,
    /// Ends a connection at the sender of the next mail.
    pub(crate) mails_per_connection_max: Option<usize>,
}

pub(crate) struct MailServer {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    _listener: AbortOnDropHandle<()>,
}

impl MailServer {
    pub(crate) async fn start(rules: Rules) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&seen);
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let session = Session {
                    stream: BufReader::new(stream),
                    rules,
                    seen: Arc::clone(&all),
                };
                tokio::spawn(session.run());
            }
        };
        Self {
            port,
            seen,
            _listener: AbortOnDropHandle::new(tokio::spawn(accept)),
        }
    }

    /// How many times a command arrived. `CONNECT` counts connections.
    pub(crate) fn count(&self, verb: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|it| *it == verb).count()
    }
}

struct Session {
    stream: BufReader<TcpStream>,
    rules: Rules,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Session {
    async fn run(mut self) -> std::io::Result<()> {
        self.note("CONNECT");
        self.reply("220 counting").await?;
        let mut mails = 0;
        loop {
            let verb = self.command().await?;
            match verb.as_str() {
                "EHLO" if self.rules.pipelining => self.reply("250-here\r\n250 PIPELINING").await?,
                "EHLO" => self.reply("250 here").await?,
                "MAIL" if self.rules.mails_per_connection_max == Some(mails) => {
                    return self.reply("421 enough mails").await;
                }
                "MAIL" if self.rules.pipelining => {
                    assert_eq!(self.command().await?, "RCPT");
                    assert_eq!(self.command().await?, "DATA");
                    self.reply("250 ok\r\n250 ok\r\n354 go on").await?;
                    mails += self.content().await?;
                }
                "DATA" => {
                    self.reply("354 go on").await?;
                    mails += self.content().await?;
                }
                _ => self.reply("250 ok").await?,
            }
        }
    }

    async fn command(&mut self) -> std::io::Result<String> {
        let line = self.line().await?;
        let verb = line.split(' ').next().unwrap().trim().to_owned();
        self.note(&verb);
        if !self.rules.pipelining && !self.stream.buffer().is_empty() {
            self.note("TOO EARLY");
        }
        Ok(verb)
    }

    /// Reads a mail up to its end.
    async fn content(&mut self) -> std::io::Result<usize> {
        while self.line().await? != ".\r\n" {}
        self.reply("250 stored").await?;
        Ok(1)
    }

    async fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    async fn reply(&mut self, text: &str) -> std::io::Result<()> {
        let line = format!("{text}\r\n");
        self.stream.write_all(line.as_bytes()).await
    }

    fn note(&self, what: &str) {
        self.seen.lock().unwrap().push(what.to_owned());
    }
}
