//! The states of a mail, and which outcome leads where.

use crate::domain::Outcome;

/// How many tries of one mail may have delivered it. One would leave a mail unsent for every answer
/// that is lost; without a limit a server that always loses its answer would be flooded.
pub const DOUBTS_MAX: i32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// In the log, and not known to be sent: due, leased or backing off.
    Pending,
    Sent,
    /// The server will not have it, and nothing was delivered.
    Failed,
    /// It may have arrived, or not, and is not sent again: for a person to look at.
    Unknown,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// What the log says after a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub status: Status,
    /// Tries that may have delivered the mail.
    pub doubts: i32,
}

/// What becomes of a pending mail. `doubts` counts this very try: it was counted before the first
/// byte went out, and only the server's word takes it back.
pub fn next(doubts: i32, outcome: &Outcome) -> Next {
    let others = (doubts - 1).max(0);
    let (status, doubts) = match outcome {
        Outcome::Accepted => (Status::Sent, doubts),
        Outcome::NotSent { .. } => (Status::Pending, others),
        Outcome::Refused { .. } if others == 0 => (Status::Failed, others),
        // An earlier try may have delivered it: "failed" would be more than we know.
        Outcome::Refused { .. } => (Status::Unknown, others),
        Outcome::Ambiguous { .. } if doubts < DOUBTS_MAX => (Status::Pending, doubts),
        Outcome::Ambiguous { .. } => (Status::Unknown, doubts),
    };
    Next { status, doubts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> [Outcome; 4] {
        let reason = || "a reason".to_owned();
        [
            Outcome::Accepted,
            Outcome::NotSent { reason: reason() },
            Outcome::Refused { reason: reason() },
            Outcome::Ambiguous { reason: reason() },
        ]
    }

    #[test]
    fn every_outcome_of_a_first_try_and_of_one_after_a_doubt() {
        let table = [
            (
                1,
                [
                    (Status::Sent, 1),
                    (Status::Pending, 0),
                    (Status::Failed, 0),
                    (Status::Pending, 1),
                ],
            ),
            (
                2,
                [
                    (Status::Sent, 2),
                    (Status::Pending, 1),
                    (Status::Unknown, 1),
                    (Status::Unknown, 2),
                ],
            ),
        ];
        for (doubts, row) in table {
            for (outcome, (status, after)) in outcomes().iter().zip(row) {
                let expected = Next {
                    status,
                    doubts: after,
                };
                assert_eq!(next(doubts, outcome), expected, "{doubts} {outcome:?}");
            }
        }
    }

    /// Whatever a server does, no more than two tries that may have delivered are ever made.
    #[test]
    fn no_series_of_outcomes_delivers_a_mail_more_than_twice() {
        const TRIES: u32 = 6;
        for series in 0..4_u32.pow(TRIES) {
            let (mut doubts, mut deliveries_max) = (0, 0);
            for step in 0..TRIES {
                // As the lease does: no try without a doubt left to spend.
                if doubts >= DOUBTS_MAX {
                    break;
                }
                let outcome = &outcomes()[(series / 4_u32.pow(step) % 4) as usize];
                if matches!(outcome, Outcome::Accepted | Outcome::Ambiguous { .. }) {
                    deliveries_max += 1;
                }
                let after = next(doubts + 1, outcome);
                doubts = after.doubts;
                if after.status != Status::Pending {
                    break;
                }
            }
            assert!(deliveries_max <= DOUBTS_MAX, "series {series}");
        }
    }
}
