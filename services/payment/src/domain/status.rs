//! The states of a payment attempt, and which answer leads from which to which.

use crate::domain::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Stored, and not known to have been charged: due, leased or backing off.
    Pending,
    Captured,
    Declined,
}

impl Status {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Captured, Self::Declined];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Captured => "captured",
            Self::Declined => "declined",
        }
    }
}

/// The state after the provider's answer; `None` if it changes nothing. An attempt that is settled
/// stays as it is, whatever a late answer says.
pub fn next(status: Status, answer: &Answer) -> Option<Status> {
    match (status, answer) {
        (Status::Pending, Answer::Captured { .. }) => Some(Status::Captured),
        (Status::Pending, Answer::Declined { .. }) => Some(Status::Declined),
        (Status::Pending, Answer::Unknown { .. }) => None,
        (Status::Captured | Status::Declined, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> [Answer; 3] {
        [
            Answer::Captured {
                charge_id: "ch_1".to_owned(),
            },
            Answer::Declined {
                code: "card_declined".to_owned(),
            },
            Answer::Unknown {
                reason: "timed out".to_owned(),
                retry_after: None,
            },
        ]
    }

    #[test]
    fn only_an_open_attempt_is_settled_and_only_by_a_definite_answer() {
        let expected = [
            [Some(Status::Captured), Some(Status::Declined), None],
            [None, None, None],
            [None, None, None],
        ];
        for (status, row) in Status::ALL.into_iter().zip(expected) {
            for (answer, after) in answers().iter().zip(row) {
                assert_eq!(next(status, answer), after, "{status:?} + {answer:?}");
            }
        }
    }
}
