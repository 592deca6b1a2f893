//! First come, first served: whether an order ships is decided by what is heard of it first, its
//! payment or the wish to be rid of it.

use crate::domain::Status;

/// The reason of a refusal because somebody called the order off.
pub const CANCELLED: &str = "cancelled";

/// What can be heard of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// It is paid for.
    Captured,
    /// Somebody no longer wants it.
    CancelRequested,
}

/// What was decided about an order, and under which payment attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub status: Status,
    pub attempt: i32,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Stock decides.
    Allocate,
    /// It does not ship, whatever is paid later.
    Cancel,
    /// It does not ship, which was said of an earlier attempt: said of this one, too, its money
    /// goes back.
    RefuseAlso,
    /// The decision stands, and was announced when it was made.
    Stand,
}

/// What to do when this is heard of an order under this attempt.
pub fn rule(known: Option<Known>, ask: Ask, attempt: i32) -> Ruling {
    let Some(known) = known else {
        return match ask {
            Ask::Captured => Ruling::Allocate,
            Ask::CancelRequested => Ruling::Cancel,
        };
    };
    match known.status {
        Status::Rejected | Status::Cancelled if attempt > known.attempt => Ruling::RefuseAlso,
        Status::Paid | Status::Shipped | Status::Rejected | Status::Cancelled => Ruling::Stand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: [Ask; 2] = [Ask::Captured, Ask::CancelRequested];

    #[test]
    fn the_first_word_about_an_order_decides() {
        assert_eq!(rule(None, Ask::Captured, 1), Ruling::Allocate);
        assert_eq!(rule(None, Ask::CancelRequested, 1), Ruling::Cancel);
    }

    #[test]
    fn after_a_decision_only_a_later_attempt_of_a_refused_order_is_answered() {
        use Ruling::{RefuseAlso, Stand};
        // Heard under an earlier, the same, or a later attempt than the decision's.
        let expected = [
            (Status::Paid, [Stand, Stand, Stand]),
            (Status::Shipped, [Stand, Stand, Stand]),
            (Status::Rejected, [Stand, Stand, RefuseAlso]),
            (Status::Cancelled, [Stand, Stand, RefuseAlso]),
        ];
        assert_eq!(expected.map(|(status, _)| status), Status::ALL);
        for (status, rulings) in expected {
            let known = Some(Known { status, attempt: 2 });
            for ask in ASKS {
                for (attempt, ruling) in (1..).zip(rulings) {
                    let seen = rule(known, ask, attempt);
                    assert_eq!(seen, ruling, "{status:?} + {ask:?} under {attempt}");
                }
            }
        }
    }
}
