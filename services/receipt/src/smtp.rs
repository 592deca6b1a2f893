//! SMTP dialogues, classified by how far they got.
//!
//! The client takes the steps one by one over lettre's connection instead of using its transport. The
//! transport reports what failed, but not whether the content was already sent, and the outcome
//! depends on that.

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
use crate::domain::SendOutcome;
use crate::domain::send_outcome::{DialogueFailure, Stage, classify};

/// Longest wait for the response to a liveness test of an idle connection.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Client {
    server: (String, u16),
    mode: TlsMode,
    tls: Option<TlsParameters>,
    credentials: Option<Credentials>,
    hello: ClientId,
    timeout: Duration,
    data_timeout: Duration,
    /// Connections whose last dialogue succeeded. There are at most as many as concurrent dialogues,
    /// which the sender limits.
    idle: Mutex<Vec<AsyncSmtpConnection>>,
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
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Tries once to send a mail. Never fails: [`classify`] turns every failure into an outcome.
    pub async fn send(&self, mail: &Message) -> SendOutcome {
        let mut stage = Stage::Session;
        let prepare = self.prepare(mail, &mut stage);
        let prepared = tokio::time::timeout(self.timeout, prepare).await;
        let mut connection = match prepared.unwrap_or_else(|_| Err(timed_out())) {
            Ok(connection) => connection,
            Err(failure) => return classify(stage, &failure),
        };
        let content = mail.formatted();
        let deliver = deliver(&mut connection, &content);
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
    async fn prepare(
        &self,
        mail: &Message,
        stage: &mut Stage,
    ) -> Result<AsyncSmtpConnection, DialogueFailure> {
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

    async fn connect(&self) -> Result<AsyncSmtpConnection, DialogueFailure> {
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

    /// Takes an idle connection that still responds. Those that the server has closed are dropped.
    async fn take_idle(&self) -> Option<AsyncSmtpConnection> {
        loop {
            // Not in a loop condition, which would hold the lock during the wait.
            let mut connection = self.idle().pop()?;
            let alive = tokio::time::timeout(LIVENESS_TIMEOUT, connection.test_connected()).await;
            if alive == Ok(true) {
                return Some(connection);
            }
        }
    }

    /// A panic cannot leave the list half changed, so a poisoned lock is usable.
    fn idle(&self) -> MutexGuard<'_, Vec<AsyncSmtpConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the content and reads the response to it.
async fn deliver(
    connection: &mut AsyncSmtpConnection,
    content: &[u8],
) -> Result<(), DialogueFailure> {
    let response = connection.message(content).await.map_err(failure)?;
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
