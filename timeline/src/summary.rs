//! One line about an order: its charges and its outcome.

use chrono::{DateTime, Utc};
use endpoints::status;

/// What the summary is made of.
pub(crate) struct Facts<'a> {
    pub(crate) charges: Option<u32>,
    pub(crate) refunds: Option<u32>,
    pub(crate) status: Option<&'a str>,
    pub(crate) placed_at: Option<DateTime<Utc>>,
    pub(crate) status_at: Option<DateTime<Utc>>,
}

pub(crate) fn summary(facts: &Facts<'_>) -> String {
    let mut parts = vec![match facts.charges {
        None => "charges not known: the provider did not respond".to_owned(),
        Some(0) => "no charge".to_owned(),
        Some(1) => "one charge".to_owned(),
        Some(count) => format!("{count} charges"),
    }];
    match facts.refunds {
        None | Some(0) => {}
        Some(1) => parts.push("one refund".to_owned()),
        Some(count) => parts.push(format!("{count} refunds")),
    }
    if let Some(outcome) = outcome(facts) {
        parts.push(outcome);
    }
    parts.join(", ")
}

fn outcome(facts: &Facts<'_>) -> Option<String> {
    let status = facts.status?;
    let taken = facts.status_at.zip(facts.placed_at);
    match taken {
        Some((end, start)) if status == status::ORDER_SHIPPED => {
            let ms = (end - start).num_milliseconds().max(0);
            Some(format!("{status} in {}.{} s", ms / 1_000, ms % 1_000 / 100))
        }
        _ => Some(status.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(charges: Option<u32>, refunds: u32, status: Option<&str>) -> Facts<'_> {
        let at = |ms| DateTime::from_timestamp_millis(ms);
        Facts {
            charges,
            refunds: Some(refunds),
            status,
            placed_at: at(1_000),
            status_at: at(2_950),
        }
    }

    #[test]
    fn summary_counts_charges_and_names_the_outcome() {
        for (facts, expected) in [
            (
                facts(Some(1), 0, Some("shipped")),
                "one charge, shipped in 1.9 s",
            ),
            (
                facts(Some(2), 1, Some("shipped")),
                "2 charges, one refund, shipped in 1.9 s",
            ),
            (facts(Some(0), 0, Some("placed")), "no charge, placed"),
            (
                facts(None, 0, Some("paid")),
                "charges not known: the provider did not respond, paid",
            ),
            (facts(Some(1), 0, None), "one charge"),
        ] {
            assert_eq!(summary(&facts), expected);
        }
    }
}
