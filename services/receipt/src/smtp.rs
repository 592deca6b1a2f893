//! SMTP dialogues, classified by how far they got.
//!
//! The client takes the steps one by one over lettre's connection instead of using its transport. The
//! transport reports what failed, but not whether the content was already sent, and the outcome
//! depends on that.
//!
//! A mail costs two round trips: one for sender, recipients and DATA together if the server supports
//! PIPELINING (RFC 2920), and one for the content. Each of them is sent with one write. A second
//! small write would wait until the server has acknowledged the first, up to 40 ms.

mod content;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use leases::LeaseEnd;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Ehlo, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::{Response, Severity};
use tokio::sync::Semaphore;

use crate::config::{Smtp, TlsMode};
use crate::domain::SendOutcome;
use crate::domain::send_outcome::{DialogueFailure, Stage, classify};

/// The reason of a try that did not start.
const NO_CONNECTION: &str = "all connections to the mail server were in use for too long";
/// The keyword of servers that accept several commands in one write.
const PIPELINING: &str = "PIPELINING";

pub struct Client {
    server: (String, u16),
    mode: TlsMode,
    tls: Option<TlsParameters>,
    credentials: Option<Credentials>,
    hello: ClientId,
    timeout: Duration,
    data_timeout: Duration,
    /// One permit for each dialogue.
    dialogues: Semaphore,
    /// Connections whose last dialogue succeeded: at most as many as there are permits.
    idle: Mutex<Vec<Connection>>,
}

struct Connection {
    smtp: AsyncSmtpConnection,
    is_pipelining: bool,
}

impl Client {
    /// The domain of `from` is the client's name in the greeting.
    pub fn new(settings: &Smtp, from: &Mailbox) -> anyhow::Result<Self> {
        let tls = match settings.smtp_tls {
            TlsMode::None => None,
            TlsMode::Starttls | TlsMode::Implicit => {
                Some(TlsParameters::new(settings.smtp_host.clone()).context("setting up TLS")?)
            }
        };
        let credentials = settings
            .smtp_user
            .clone()
            .zip(settings.smtp_password.clone());
        Ok(Self {
            server: (settings.smtp_host.clone(), settings.smtp_port),
            mode: settings.smtp_tls,
            tls,
            credentials: credentials.map(|(user, password)| Credentials::new(user, password)),
            hello: ClientId::Domain(from.email.domain().to_owned()),
            timeout: Duration::from_millis(settings.smtp_timeout_ms),
            data_timeout: Duration::from_millis(settings.smtp_data_timeout_ms),
            dialogues: Semaphore::new(settings.smtp_connections_max),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Longest time of a dialogue.
    pub fn dialogue_max(&self) -> Duration {
        self.timeout + self.data_timeout
    }

    /// Tries once to send a mail. Never fails: [`classify`] turns every failure into an outcome. Waits for
    /// its turn, but starts no dialogue that could outlast the lease: another sender would send the same
    /// mail at the same time.
    pub async fn send(&self, mail: &Message, lease_ends: &LeaseEnd) -> SendOutcome {
        let time_to_start = || lease_ends.remaining().saturating_sub(self.dialogue_max());
        let turn = tokio::time::timeout(time_to_start(), self.dialogues.acquire()).await;
        match turn {
            // The machine may have been suspended during the wait.
            Ok(Ok(_turn)) if !time_to_start().is_zero() => self.dialogue(mail).await,
            _ => SendOutcome::NotSent {
                reason: NO_CONNECTION.to_owned(),
            },
        }
    }

    async fn dialogue(&self, mail: &Message) -> SendOutcome {
        let mut stage = Stage::Session;
        let prepare = self.prepare(mail, &mut stage);
        let prepared = tokio::time::timeout(self.timeout, prepare).await;
        let mut connection = match prepared.unwrap_or_else(|_| Err(timed_out())) {
            Ok(connection) => connection,
            Err(failure) => return classify(stage, &failure),
        };
        let content = content::encode(&mail.formatted());
        let deliver = deliver(&mut connection.smtp, &content);
        let delivered = tokio::time::timeout(self.data_timeout, deliver).await;
        match delivered.unwrap_or_else(|_| Err(timed_out())) {
            Ok(()) => {
                self.idle().push(connection);
                SendOutcome::Accepted
            }
            Err(failure) => classify(Stage::Content, &failure),
        }
    }

    /// Runs the dialogue up to the content. Afterwards the server waits for the content and has none of
    /// it yet.
    ///
    /// An idle connection is used without a test: a test would cost every mail a round trip. The server
    /// may have closed it, or may end it after a number of mails. Then the mail starts over on a new
    /// connection.
    async fn prepare(
        &self,
        mail: &Message,
        stage: &mut Stage,
    ) -> Result<Connection, DialogueFailure> {
        let idle = self.idle().pop();
        if let Some(connection) = idle {
            let reuse = envelope(connection, mail, stage);
            // Leaves time for a new connection if this one never responds.
            let reused = tokio::time::timeout(self.timeout / 2, reuse).await;
            let reused = reused.unwrap_or_else(|_| Err(timed_out()));
            if reused.is_ok() || *stage != Stage::Session {
                return reused;
            }
        }
        envelope(self.connect().await?, mail, stage).await
    }

    async fn connect(&self) -> Result<Connection, DialogueFailure> {
        let (host, port) = (self.server.0.as_str(), self.server.1);
        let implicit = self.tls.clone().filter(|_| self.mode == TlsMode::Implicit);
        let mut connection = AsyncSmtpConnection::connect_tokio1(
            (host, port),
            Some(self.timeout),
            &self.hello,
            implicit,
            None,
        )
        .await
        .map_err(failure)?;
        if let (TlsMode::Starttls, Some(tls)) = (self.mode, &self.tls) {
            let upgrade = connection.starttls(tls.clone(), &self.hello);
            upgrade.await.map_err(failure)?;
        }
        if let Some(credentials) = &self.credentials {
            let login = connection.auth(DEFAULT_MECHANISMS, credentials);
            login.await.map_err(failure)?;
        }
        // A second EHLO, because lettre does not expose this keyword.
        let hello = connection.command(Ehlo::new(self.hello.clone())).await;
        let is_pipelining = offers_pipelining(&hello.map_err(failure)?);
        Ok(Connection {
            smtp: connection,
            is_pipelining,
        })
    }

    /// A panic cannot leave the list half changed, so a poisoned lock is usable.
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names sender and recipients and asks for permission to send the content: in one write if the server
/// allows it, otherwise step by step. The responses are the same, one for each command.
async fn envelope(
    mut connection: Connection,
    mail: &Message,
    stage: &mut Stage,
) -> Result<Connection, DialogueFailure> {
    let envelope = mail.envelope();
    let mut commands = vec![Mail::new(envelope.from().cloned(), Vec::new()).to_string()];
    for to in envelope.to() {
        commands.push(Rcpt::new(to.clone(), Vec::new()).to_string());
    }
    commands.push(Data.to_string());
    let smtp = &mut connection.smtp;
    for (index, command) in commands.iter().enumerate() {
        let response = match (connection.is_pipelining, index) {
            (false, _) => smtp.command(command).await,
            (true, 0) => smtp.command(commands.concat()).await,
            (true, _) => smtp.read_response().await,
        };
        response.map_err(failure)?;
        // The server has accepted the sender: what follows is about this mail.
        *stage = Stage::Envelope;
    }
    Ok(connection)
}

fn offers_pipelining(hello: &Response) -> bool {
    let is_keyword = |line: &str| line.trim().eq_ignore_ascii_case(PIPELINING);
    hello.message().any(is_keyword)
}

/// Sends the content and reads the response to it.
async fn deliver(
    connection: &mut AsyncSmtpConnection,
    content: &str,
) -> Result<(), DialogueFailure> {
    let response = connection.command(content).await.map_err(failure)?;
    let code = response.code();
    if code.severity == Severity::PositiveCompletion {
        return Ok(());
    }
    Err(DialogueFailure::Response {
        code: code.into(),
        text: response.message().collect::<Vec<_>>().join(" "),
    })
}

fn failure(error: lettre::transport::smtp::Error) -> DialogueFailure {
    match error.status() {
        Some(code) => DialogueFailure::Response {
            code: code.into(),
            text: std::error::Error::source(&error).map_or_else(String::new, ToString::to_string),
        },
        None => DialogueFailure::NoResponse {
            reason: error.to_string(),
        },
    }
}

fn timed_out() -> DialogueFailure {
    DialogueFailure::NoResponse {
        reason: "timed out".to_owned(),
    }
}
