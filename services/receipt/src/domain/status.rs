//! The states of a mail, and the transitions between them.

use crate::domain::SendOutcome;
use service_kit::text_enum;

/// How many tries of one mail may have delivered it. With one, every lost response would leave a
/// mail unsent. Without a limit, a server that always loses its response would be flooded.
pub const TRIES_IN_DOUBT_MAX: i32 = 2;

text_enum! {
    "receipt status";
    pub enum Status {
        /// Logged, and not known to be sent: due, leased or waiting for a retry.
        Pending = "pending",
        /// About an event that is too old. An operator must release it.
        Held = "held",
        Sent = "sent",
        /// The server will never accept it, and nothing was delivered.
        Failed = "failed",
        /// It may have been delivered, and it is not sent again. An operator must look at it.
        Unknown = "unknown",
    }
}

impl Status {
    /// Whether nothing happens to the mail until an operator decides.
    pub fn waits_for_operator(self) -> bool {
        match self {
            Self::Held | Self::Failed | Self::Unknown => true,
            Self::Pending | Self::Sent => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub status: Status,
    /// Tries that may have delivered the mail.
    pub tries_in_doubt: i32,
}

/// Returns the state after a try. A mail that is not pending stays as it is.
///
/// `state.tries_in_doubt` includes this try: the lease counts it before the first byte is sent, and
/// only a definite outcome removes it. A sender that dies during its last allowed try
/// leaves the same state as an ambiguous outcome: unknown.
pub fn next(state: State, outcome: &SendOutcome) -> State {
    let State {
        status,
        tries_in_doubt,
    } = state;
    let before = (tries_in_doubt - 1).max(0);
    let (status, tries_in_doubt) = match (status, outcome) {
        (Status::Held | Status::Sent | Status::Failed | Status::Unknown, _) => {
            (status, tries_in_doubt)
        }
        (Status::Pending, SendOutcome::Accepted) => (Status::Sent, tries_in_doubt),
        (Status::Pending, SendOutcome::NotSent { .. }) => (Status::Pending, before),
        (Status::Pending, SendOutcome::PermanentFailure { .. }) if before == 0 => {
            (Status::Failed, before)
        }
        // An earlier try may have delivered it, so "failed" would claim too much.
        (Status::Pending, SendOutcome::PermanentFailure { .. }) => (Status::Unknown, before),
        (Status::Pending, SendOutcome::Ambiguous { .. }) if tries_in_doubt < TRIES_IN_DOUBT_MAX => {
            (Status::Pending, tries_in_doubt)
        }
        (Status::Pending, SendOutcome::Ambiguous { .. }) => (Status::Unknown, tries_in_doubt),
    };
    State {
        status,
        tries_in_doubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> [SendOutcome; 4] {
        let reason = || "a reason".to_owned();
        [
            SendOutcome::Accepted,
            SendOutcome::NotSent { reason: reason() },
            SendOutcome::PermanentFailure { reason: reason() },
            SendOutcome::Ambiguous { reason: reason() },
        ]
    }

    fn state((status, tries_in_doubt): (Status, i32)) -> State {
        State {
            status,
            tries_in_doubt,
        }
    }

    #[test]
    fn every_outcome_leads_from_every_state_to_one_state() {
        use Status::{Failed, Held, Pending, Sent, Unknown};
        // Columns: accepted, not sent, permanent failure, ambiguous.
        let table = [
            (
                (Pending, 1),
                [(Sent, 1), (Pending, 0), (Failed, 0), (Pending, 1)],
            ),
            (
                (Pending, 2),
                [(Sent, 2), (Pending, 1), (Unknown, 1), (Unknown, 2)],
            ),
            ((Held, 0), [(Held, 0); 4]),
            ((Sent, 1), [(Sent, 1); 4]),
            ((Sent, 2), [(Sent, 2); 4]),
            ((Failed, 0), [(Failed, 0); 4]),
            ((Unknown, 1), [(Unknown, 1); 4]),
            ((Unknown, 2), [(Unknown, 2); 4]),
        ];
        for status in Status::ALL {
            assert!(table.iter().any(|((from, _), _)| *from == status));
        }
        for (from, row) in table {
            for (outcome, after) in outcomes().iter().zip(row) {
                let seen = next(state(from), outcome);
                assert_eq!(seen, state(after), "{from:?} + {outcome:?}");
            }
        }
    }

    /// No server behaviour leads to more than two tries that may have delivered the mail.
    #[test]
    fn no_series_of_outcomes_delivers_a_mail_more_than_twice() {
        const TRIES: u32 = 6;
        for series in 0..4_u32.pow(TRIES) {
            let (mut current, mut deliveries_max) = (state((Status::Pending, 0)), 0);
            for step in 0..TRIES {
                // As the lease does: no further try once the limit is reached.
                if current.tries_in_doubt >= TRIES_IN_DOUBT_MAX {
                    break;
                }
                let outcome = &outcomes()[(series / 4_u32.pow(step) % 4) as usize];
                if matches!(
                    outcome,
                    SendOutcome::Accepted | SendOutcome::Ambiguous { .. }
                ) {
                    deliveries_max += 1;
                }
                current.tries_in_doubt += 1;
                current = next(current, outcome);
                if current.status != Status::Pending {
                    break;
                }
            }
            assert!(deliveries_max <= TRIES_IN_DOUBT_MAX, "series {series}");
        }
    }
}
