//! Dialogues with the mail server, told apart by how far they came.
//!
//! The steps are taken one by one, over lettre's connection, instead of by its ready-made transport:
//! that says what went wrong, but not whether the content was out already, and everything hangs on
//! that.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Severity;

use crate::config::{Smtp, TlsMode};
use crate::domain::Outcome;
use crate::domain::outcome::{Failure, Stage, judge};

/// Longest wait for a server's answer to a question that nothing depends on.
const COURTESY_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Client {
    server: (String, u16),
    mode: TlsMode,
    tls: Option<TlsParameters>,
    credentials: Option<Credentials>,
    hello: ClientId,
    timeout: Duration,
    data_timeout: Duration,
    /// Connections whose last dialogue ended well. Never more than there are dialogues at once,
    /// which the sender limits.
    idle: Mutex<Vec<AsyncSmtpConnection>>,
}

impl Client {
    /// `from` names us to the server by its domain.
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
            idle: Mutex::new(Vec::new()),
        })
    }

    /// One try to send a mail. Never fails: what is not an acceptance is told apart by [`judge`].
    pub async fn send(&self, mail: &Message) -> Outcome {
        let mut stage = Stage::Session;
        let prepare = self.prepare(mail, &mut stage);
        let prepared = tokio::time::timeout(self.timeout, prepare).await;
        let mut connection = match prepared.unwrap_or_else(|_| Err(timed_out())) {
            Ok(connection) => connection,
            Err(failure) => return judge(stage, &failure),
        };
        let content = mail.formatted();
        let deliver = deliver(&mut connection, &content);
        let delivered = tokio::time::timeout(self.data_timeout, deliver).await;
        match delivered.unwrap_or_else(|_| Err(timed_out())) {
            Ok(()) => {
                self.idle().push(connection);
                Outcome::Accepted
            }
            Err(failure) => judge(Stage::Content, &failure),
        }
    }

    /// Everything before the content: after it the server waits for the mail, and has nothing yet.
    async fn prepare(
        &self,
        mail: &Message,
        stage: &mut Stage,
    ) -> Result<AsyncSmtpConnection, Failure> {
        let mut connection = match self.take_idle().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let envelope = mail.envelope();
        let from = Mail::new(envelope.from().cloned(), Vec::new());
        connection.command(from).await.map_err(failure)?;
        *stage = Stage::Envelope;
        for to in envelope.to() {
            let to = Rcpt::new(to.clone(), Vec::new());
            connection.command(to).await.map_err(failure)?;
        }
        connection.command(Data).await.map_err(failure)?;
        Ok(connection)
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Failure> {
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
        Ok(connection)
    }

    /// A connection that still answers. One that the server has closed meanwhile is no news.
    async fn take_idle(&self) -> Option<AsyncSmtpConnection> {
        loop {
            // Not in the condition of the loop: the lock would be held over the wait.
            let mut connection = self.idle().pop()?;
            let alive = tokio::time::timeout(COURTESY_TIMEOUT, connection.test_connected()).await;
            if alive == Ok(true) {
                return Some(connection);
            }
        }
    }

    /// A panic elsewhere leaves the list whole, so a poisoned lock is as good as any.
    fn idle(&self) -> MutexGuard<'_, Vec<AsyncSmtpConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The content, and the server's word on it.
async fn deliver(connection: &mut AsyncSmtpConnection, content: &[u8]) -> Result<(), Failure> {
    let answer = connection.message(content).await.map_err(failure)?;
    let code = answer.code();
    if code.severity == Severity::PositiveCompletion {
        return Ok(());
    }
    Err(Failure::Answer {
        code: code.into(),
        text: answer.message().collect::<Vec<_>>().join(" "),
    })
}

fn failure(error: lettre::transport::smtp::Error) -> Failure {
    match error.status() {
        Some(code) => Failure::Answer {
            code: code.into(),
            text: std::error::Error::source(&error).map_or_else(String::new, ToString::to_string),
        },
        None => Failure::NoAnswer {
            reason: error.to_string(),
        },
    }
}

fn timed_out() -> Failure {
    Failure::NoAnswer {
        reason: "timed out".to_owned(),
    }
}
