//! What the end of a dialogue means for the mail.

use std::fmt;

/// How one try to send a mail ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server took responsibility for the mail.
    Accepted,
    /// Definite: this try delivered nothing, and another may do better.
    NotSent { reason: String },
    /// Definite: this try delivered nothing, and the server will never take this mail.
    Refused { reason: String },
    /// The content went out, and no answer tells what became of it.
    Ambiguous { reason: String },
}

/// How far the dialogue had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Connecting, greeting, encryption, login, sender: the same for every mail.
    Session,
    /// The recipient, and the leave to send the content: this very mail.
    Envelope,
    /// The content has begun to go out.
    Content,
}

/// Why it did not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server's word, a 4xx or 5xx.
    Answer { code: u16, text: String },
    /// No word: connection refused or lost, time-out, or something that is not SMTP.
    NoAnswer { reason: String },
}

impl Outcome {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NotSent { .. } => "not_sent",
            Self::Refused { .. } => "refused",
            Self::Ambiguous { .. } => "ambiguous",
        }
    }

    /// Why it was not accepted.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Accepted => None,
            Self::NotSent { reason } | Self::Refused { reason } | Self::Ambiguous { reason } => {
                Some(reason)
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { code, text } => write!(f, "{code} {text}"),
            Self::NoAnswer { reason } => f.write_str(reason),
        }
    }
}

/// Judges a dialogue that failed. Silence is harmless until the content goes out: a server delivers
/// nothing that it has not got. From there on only the server's word counts.
pub fn judge(stage: Stage, failure: &Failure) -> Outcome {
    let reason = failure.to_string();
    match (stage, failure) {
        (Stage::Content, Failure::NoAnswer { .. }) => Outcome::Ambiguous { reason },
        (Stage::Envelope | Stage::Content, Failure::Answer { code, .. })
            if (500..600).contains(code) =>
        {
            Outcome::Refused { reason }
        }
        // An answer that is neither yes nor no after the content tells as little as none.
        (Stage::Content, Failure::Answer { code, .. }) if !(400..500).contains(code) => {
            Outcome::Ambiguous { reason }
        }
        // A 5xx to the session is about us or the server, a wrong password say. Whoever mends that
        // wants the mails to go out, not to find them all given up.
        (Stage::Session | Stage::Envelope | Stage::Content, _) => Outcome::NotSent { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Verdict {
        NotSent,
        Refused,
        Ambiguous,
    }
    use Verdict::{Ambiguous, NotSent, Refused};

    fn verdict(stage: Stage, failure: &Failure) -> Verdict {
        match judge(stage, failure) {
            Outcome::NotSent { .. } => NotSent,
            Outcome::Refused { .. } => Refused,
            Outcome::Ambiguous { .. } => Ambiguous,
            Outcome::Accepted => panic!("a failure was taken for a success"),
        }
    }

    fn answer(code: u16) -> Failure {
        Failure::Answer {
            code,
            text: "no".to_owned(),
        }
    }

    #[test]
    fn only_what_is_lost_after_the_content_began_is_ambiguous() {
        let lost = Failure::NoAnswer {
            reason: "connection lost".to_owned(),
        };
        let table = [
            (Stage::Session, [NotSent, NotSent, NotSent, NotSent]),
            (Stage::Envelope, [NotSent, NotSent, Refused, NotSent]),
            (Stage::Content, [Ambiguous, NotSent, Refused, Ambiguous]),
        ];
        for (stage, expected) in table {
            let failures = [lost.clone(), answer(451), answer(550), answer(354)];
            for (failure, expected) in failures.iter().zip(expected) {
                assert_eq!(verdict(stage, failure), expected, "{stage:?} {failure:?}");
            }
        }
    }

    #[test]
    fn a_server_that_closes_down_and_says_so_has_not_taken_the_mail() {
        assert_eq!(verdict(Stage::Content, &answer(421)), NotSent);
    }

    #[test]
    fn the_server_s_own_words_are_kept_as_the_reason() {
        let Outcome::Refused { reason } = judge(Stage::Content, &answer(550)) else {
            panic!("550 is a refusal");
        };
        assert_eq!(reason, "550 no");
    }
}
