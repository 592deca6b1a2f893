//! What the end of an SMTP dialogue means for the mail.

use std::fmt;

/// How one try to send a mail ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The server took responsibility for the mail.
    Accepted,
    /// Definite: this try delivered nothing. A retry may succeed.
    NotSent { reason: String },
    /// Definite: this try delivered nothing, and the server will never accept this mail.
    PermanentFailure { reason: String },
    /// The content was sent, but the server's response to it was lost.
    Ambiguous { reason: String },
}

/// How far the dialogue got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Connection, greeting, encryption, login, sender: the same for every mail.
    Session,
    /// The recipient, and the permission to send the content: specific to this mail.
    Envelope,
    /// The client has begun to send the content.
    Content,
}

/// Why the dialogue ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialogueFailure {
    /// The server responded with an error code.
    Response { code: u16, text: String },
    /// No response: no connection, a lost connection, a timeout, or a response that is not SMTP.
    NoResponse { reason: String },
}

impl SendOutcome {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NotSent { .. } => "not_sent",
            Self::PermanentFailure { .. } => "permanent_failure",
            Self::Ambiguous { .. } => "ambiguous",
        }
    }

    /// Why the mail was not accepted.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Accepted => None,
            Self::NotSent { reason }
            | Self::PermanentFailure { reason }
            | Self::Ambiguous { reason } => Some(reason),
        }
    }
}

impl fmt::Display for DialogueFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response { code, text } => write!(f, "{code} {text}"),
            Self::NoResponse { reason } => f.write_str(reason),
        }
    }
}

/// Classifies a dialogue that failed. A lost response is harmless before the content is sent: a
/// server cannot deliver what it does not have. After that only a response is definite.
pub fn classify(stage: Stage, failure: &DialogueFailure) -> SendOutcome {
    let reason = failure.to_string();
    match (stage, failure) {
        (Stage::Content, DialogueFailure::NoResponse { .. }) => SendOutcome::Ambiguous { reason },
        (Stage::Envelope | Stage::Content, DialogueFailure::Response { code, .. })
            if (500..600).contains(code) =>
        {
            SendOutcome::PermanentFailure { reason }
        }
        // After the content, a code that is neither success nor failure leaves the outcome unknown.
        (Stage::Content, DialogueFailure::Response { code, .. }) if !(400..500).contains(code) => {
            SendOutcome::Ambiguous { reason }
        }
        // A 5xx in the session is about our settings or the server, for example a wrong password.
        // When an operator has fixed that, the mails must still go out.
        (Stage::Session | Stage::Envelope | Stage::Content, _) => SendOutcome::NotSent { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_SENT: &str = "not_sent";
    const PERMANENT: &str = "permanent_failure";
    const AMBIGUOUS: &str = "ambiguous";

    fn response(code: u16) -> DialogueFailure {
        DialogueFailure::Response {
            code,
            text: "no".to_owned(),
        }
    }

    #[test]
    fn only_a_loss_after_the_content_began_is_ambiguous() {
        let lost = DialogueFailure::NoResponse {
            reason: "connection lost".to_owned(),
        };
        let table = [
            (Stage::Session, [NOT_SENT, NOT_SENT, NOT_SENT, NOT_SENT]),
            (Stage::Envelope, [NOT_SENT, NOT_SENT, PERMANENT, NOT_SENT]),
            (Stage::Content, [AMBIGUOUS, NOT_SENT, PERMANENT, AMBIGUOUS]),
        ];
        for (stage, expected) in table {
            let failures = [lost.clone(), response(451), response(550), response(354)];
            for (failure, expected) in failures.iter().zip(expected) {
                let outcome = classify(stage, failure);
                assert_eq!(outcome.as_str(), expected, "{stage:?} {failure:?}");
            }
        }
    }

    #[test]
    fn server_that_announces_its_shutdown_has_no_mail() {
        let outcome = classify(Stage::Content, &response(421));
        assert_eq!(outcome.as_str(), NOT_SENT);
    }

    #[test]
    fn reason_is_the_response_of_the_server() {
        let outcome = classify(Stage::Content, &response(550));
        assert_eq!(outcome.reason(), Some("550 no"));
    }
}
