//! What a provider's key is good for: whether sending it again can still settle the call.

use serde::Serialize;
use service_kit::text_enum;

use crate::domain::ProviderAnswer;

text_enum! {
    "key state";
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum KeyState {
        /// Sending it moves the money, or repeats the answer of the first time.
        Usable = "usable",
        /// The provider decides later, and repeats "later" until its window closes.
        Processing = "processing",
        /// The provider repeats a stored error.
        Spent = "spent",
    }
}

impl KeyState {
    /// Whether the next call may send the key; otherwise it looks up what the key did.
    pub const fn may_send(self) -> bool {
        matches!(self, Self::Usable)
    }

    /// The state after an answer that settled nothing.
    pub fn after(self, answer: &ProviderAnswer) -> Self {
        match answer {
            ProviderAnswer::Absent => Self::Usable,
            ProviderAnswer::Processing => Self::Processing,
            ProviderAnswer::KeySpent { .. } => Self::Spent,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::provider_answer::tests::one_of_each;

    #[test]
    fn only_three_answers_change_the_state() {
        for state in KeyState::ALL {
            for answer in one_of_each() {
                let expected = match answer.name() {
                    "absent" => KeyState::Usable,
                    "processing" => KeyState::Processing,
                    "key_spent" => KeyState::Spent,
                    _ => state,
                };
                assert_eq!(state.after(&answer), expected, "{state:?} + {answer:?}");
            }
        }
    }

    #[test]
    fn only_usable_keys_are_sent() {
        let sent = KeyState::ALL.map(KeyState::may_send);
        assert_eq!(sent, [true, false, false]);
    }
}
