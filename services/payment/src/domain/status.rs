//! The states of a payment attempt, and which answer leads from which to which.

use std::str::FromStr;

use crate::domain::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Stored, and nobody has asked the provider in vain: due, or in hand for the first time.
    Pending,
    /// Somebody asked and was not told: there may be a charge. Due, in hand again, or backing off.
    Unknown,
    Captured,
    Declined,
    /// Closed without money: it took none and never will.
    Voided,
}

impl Status {
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Unknown,
        Self::Captured,
        Self::Declined,
        Self::Voided,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Unknown => "unknown",
            Self::Captured => "captured",
            Self::Declined => "declined",
            Self::Voided => "voided",
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("unknown payment status {0:?}")]
pub struct UnknownStatus(String);

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(name: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == name)
            .ok_or_else(|| UnknownStatus(name.to_owned()))
    }
}

/// The state after the provider's answer; `None` if it changes nothing. An attempt that is settled
/// stays as it is, whatever a late answer says.
pub fn next(status: Status, answer: &Answer) -> Option<Status> {
    match (status, answer) {
        (Status::Captured | Status::Declined | Status::Voided, _) => None,
        (_, Answer::Captured { .. }) => Some(Status::Captured),
        (_, Answer::Declined { .. }) => Some(Status::Declined),
        (_, Answer::Cancelled) => Some(Status::Voided),
        (Status::Pending, Answer::Unknown { .. } | Answer::Absent) => Some(Status::Unknown),
        // As unknown as before; or about a refund, and those have a table of their own.
        (_, Answer::Unknown { .. } | Answer::Absent | Answer::Refunded { .. }) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> [Answer; 6] {
        [
            Answer::Captured {
                charge_id: "ch_1".to_owned(),
            },
            Answer::Declined {
                code: "card_declined".to_owned(),
            },
            Answer::Cancelled,
            Answer::Absent,
            Answer::Unknown {
                reason: "timed out".to_owned(),
                retry_after: None,
            },
            Answer::Refunded {
                refund_id: "re_1".to_owned(),
            },
        ]
    }

    #[test]
    fn only_an_open_attempt_is_settled_and_only_by_a_definite_answer() {
        use Status::{Captured, Declined, Unknown, Voided};
        let definite = [Some(Captured), Some(Declined), Some(Voided)];
        let settled = [None; 6];
        let [captured, declined, voided] = definite;
        let expected = [
            [
                captured,
                declined,
                voided,
                Some(Unknown),
                Some(Unknown),
                None,
            ],
            [captured, declined, voided, None, None, None],
            settled,
            settled,
            settled,
        ];
        for (status, row) in Status::ALL.into_iter().zip(expected) {
            for (answer, after) in answers().iter().zip(row) {
                assert_eq!(next(status, answer), after, "{status:?} + {answer:?}");
            }
        }
    }

    #[test]
    fn names_survive_the_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
    }
}
