//! An operator's decision about a mail in doubt.

use service_kit::text_enum;

use crate::domain::{State, Status, TRIES_IN_DOUBT_MAX};

text_enum! {
    "action";
    pub enum Action {
        /// Send the mail again. It may arrive twice.
        Send = "send",
        /// Count the mail as sent: it arrived, or the customer was informed in another way.
        Settle = "settle",
    }
}

/// What a decision does to the mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The mail gets this state.
    Apply(State),
    /// The same decision was made before, about the same tries.
    Repeated,
    /// The mail is not in doubt, was tried again since, or the other decision was made before.
    Conflict,
}

/// `tries_seen` is the number of tries that the operator decided about, and `earlier` the decision
/// that is stored for that number.
pub fn resolve(
    state: State,
    tries: i32,
    tries_seen: i32,
    earlier: Option<Action>,
    action: Action,
) -> Effect {
    if let Some(earlier) = earlier {
        return match earlier == action {
            true => Effect::Repeated,
            false => Effect::Conflict,
        };
    }
    let State {
        status,
        tries_in_doubt,
    } = state;
    match (status, action) {
        _ if tries != tries_seen => Effect::Conflict,
        (Status::Failed | Status::Unknown, Action::Send) => Effect::Apply(State {
            status: Status::Pending,
            // Leaves one try that may deliver the mail.
            tries_in_doubt: tries_in_doubt.min(TRIES_IN_DOUBT_MAX - 1),
        }),
        (Status::Failed | Status::Unknown, Action::Settle) => Effect::Apply(State {
            status: Status::Sent,
            tries_in_doubt,
        }),
        (Status::Pending | Status::Held | Status::Sent, _) => Effect::Conflict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(status: Status, tries_in_doubt: i32) -> State {
        State {
            status,
            tries_in_doubt,
        }
    }

    #[test]
    fn only_a_mail_in_doubt_is_resolved() {
        for status in Status::ALL {
            let of = |action| resolve(state(status, 2), 2, 2, None, action);
            let in_doubt = matches!(status, Status::Failed | Status::Unknown);
            let (send, settle) = match in_doubt {
                true => (
                    Effect::Apply(state(Status::Pending, 1)),
                    Effect::Apply(state(Status::Sent, 2)),
                ),
                false => (Effect::Conflict, Effect::Conflict),
            };
            assert_eq!(
                (of(Action::Send), of(Action::Settle)),
                (send, settle),
                "{status}"
            );
        }
        let failed = resolve(state(Status::Failed, 0), 1, 1, None, Action::Send);
        assert_eq!(failed, Effect::Apply(state(Status::Pending, 0)));
    }

    #[test]
    fn repeat_changes_nothing_and_another_decision_conflicts() {
        for status in Status::ALL {
            let of = |earlier, action| resolve(state(status, 2), 3, 2, Some(earlier), action);
            assert_eq!(of(Action::Send, Action::Send), Effect::Repeated);
            assert_eq!(of(Action::Settle, Action::Settle), Effect::Repeated);
            assert_eq!(of(Action::Send, Action::Settle), Effect::Conflict);
            assert_eq!(of(Action::Settle, Action::Send), Effect::Conflict);
        }
    }

    #[test]
    fn decision_about_earlier_tries_does_not_apply() {
        let effect = resolve(state(Status::Unknown, 2), 3, 2, None, Action::Send);
        assert_eq!(effect, Effect::Conflict);
    }
}
