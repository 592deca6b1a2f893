//! What the provider's words mean for the money.

use std::time::Duration;

use serde::Deserialize;

/// The provider's answer to a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Captured {
        charge_id: String,
    },
    /// Definite: no money moved under this key, and none will.
    Declined {
        code: String,
    },
    /// Anything else. The charge may have been made: only the same key may be sent again.
    Unknown {
        reason: String,
        retry_after: Option<Duration>,
    },
}

#[derive(Deserialize)]
struct Charge {
    id: String,
    status: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalReason,
}

#[derive(Deserialize)]
struct RefusalReason {
    code: String,
}

/// Reads an HTTP answer. Whatever is not plainly a capture or a decline is unknown: a time-out, a
/// reset, a 5xx, 409 or 429, but also a body that makes no sense.
pub fn read(status: u16, body: &[u8], retry_after: Option<Duration>) -> Answer {
    let unknown = |reason: String| Answer::Unknown {
        reason,
        retry_after,
    };
    match status {
        200 | 201 => match serde_json::from_slice::<Charge>(body) {
            Ok(charge) if charge.status == "captured" => Answer::Captured {
                charge_id: charge.id,
            },
            Ok(charge) => unknown(format!("{status} with a charge that is {}", charge.status)),
            Err(_) => unknown(format!("{status} with an unreadable body")),
        },
        402 => match serde_json::from_slice::<Refusal>(body) {
            Ok(refusal) => Answer::Declined {
                code: refusal.error.code,
            },
            Err(_) => unknown("402 with an unreadable body".to_owned()),
        },
        other => unknown(format!("status {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_and_a_decline_are_definite() {
        let captured = read(201, br#"{"id":"ch_1","status":"captured"}"#, None);
        assert_eq!(
            captured,
            Answer::Captured {
                charge_id: "ch_1".to_owned()
            }
        );
        let declined = read(
            402,
            br#"{"error":{"code":"insufficient_funds","message":""}}"#,
            None,
        );
        assert_eq!(
            declined,
            Answer::Declined {
                code: "insufficient_funds".to_owned()
            }
        );
    }

    #[test]
    fn every_other_answer_leaves_the_outcome_unknown() {
        let retry_after = Some(Duration::from_secs(3));
        for status in (100..600).filter(|status| ![200, 201, 402].contains(status)) {
            let answer = read(status, b"{}", retry_after);
            assert!(
                matches!(
                    answer,
                    Answer::Unknown {
                        retry_after: Some(_),
                        ..
                    }
                ),
                "{status}: {answer:?}"
            );
        }
        for (status, body) in [
            (201, &b""[..]),
            (201, br#"{"id":"ch_1","status":"processing"}"#),
            (402, b"<html>"),
            (200, b"null"),
        ] {
            assert!(
                matches!(read(status, body, None), Answer::Unknown { .. }),
                "{status}"
            );
        }
    }
}
