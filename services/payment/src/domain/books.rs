//! Compares entries of the provider's books with rows of our tables, and classifies each pair.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::provider_key::parse_charge_key;
use crate::domain::{AttemptStatus, RefundStatus};

/// A charge in the provider's books.
#[derive(Clone, Debug, Deserialize)]
pub struct Charge {
    pub id: String,
    pub reference: String,
    pub amount: i64,
    pub currency: String,
    pub idempotency_key: String,
    pub created_at: chrono::DateTime<chrono::Utc>,
    #[serde(default)]
    pub refunds: Vec<Refund>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Refund {
    pub id: String,
    pub idempotency_key: String,
    pub amount: i64,
}

/// An attempt in our table.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub order_id: Uuid,
    pub attempt: i32,
    pub status: AttemptStatus,
    pub amount: i64,
    pub currency: String,
    pub charge_id: Option<String>,
}

/// A refund in our table.
#[derive(Clone, Debug)]
pub struct OurRefund {
    pub key: String,
    pub status: RefundStatus,
}

/// The result of comparing a charge with its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Both sides agree.
    Agrees,
    /// The attempt is still open, and the charge settles it.
    Settle,
    /// The attempt that its key names does not own the charge, for this reason. The charge is
    /// refunded.
    Orphan(&'static str),
    /// We created its key, and no attempt has the key. The attempt may still arrive: after a database is
    /// restored, the events of its orders are published again.
    OrphanWithoutAttempt,
    /// We did not create its key. An operator must look at it.
    Foreign,
}

/// One entry of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub kind: &'static str,
    pub charge_id: String,
    pub reference: String,
    pub detail: String,
    pub action: &'static str,
}

/// Decides whether the attempt owns the charge. `attempt` is the one that the charge's key names,
/// if it exists.
pub fn compare(charge: &Charge, attempt: Option<&Attempt>) -> Finding {
    let Some(attempt) = attempt else {
        let is_ours = parse_charge_key(&charge.idempotency_key).is_some();
        return if is_ours {
            Finding::OrphanWithoutAttempt
        } else {
            Finding::Foreign
        };
    };
    match attempt.status {
        AttemptStatus::Pending | AttemptStatus::Unknown => Finding::Settle,
        AttemptStatus::Captured if attempt.charge_id.as_ref() == Some(&charge.id) => {
            Finding::Agrees
        }
        AttemptStatus::Captured => Finding::Orphan("its attempt has another charge"),
        AttemptStatus::Declined => Finding::Orphan("its attempt was declined"),
        AttemptStatus::Voided => Finding::Orphan("its attempt was voided"),
    }
}

/// The difference between the amounts, for a charge that its attempt owns.
pub fn amount_differs(charge: &Charge, attempt: &Attempt) -> Option<Difference> {
    let same = charge.amount == attempt.amount && charge.currency == attempt.currency;
    (!same).then(|| {
        let (theirs, ours) = (charge.amount, attempt.amount);
        charge.differs(
            "amount_mismatch",
            format!(
                "charged {theirs} {}, recorded {ours} {}",
                charge.currency, attempt.currency
            ),
            "flagged",
        )
    })
}

/// The id of the provider's refund that settles our open refund.
pub fn refund_to_settle<'a>(charge: &'a Charge, ours: Option<&OurRefund>) -> Option<&'a str> {
    let open = ours.filter(|refund| refund.status.is_open())?;
    let mut theirs = charge.refunds.iter();
    let found = theirs.find(|refund| refund.idempotency_key == open.key)?;
    Some(&found.id)
}

/// The differences of a charge's refunds, except those that [`refund_to_settle`] settles.
pub fn refund_differences(charge: &Charge, ours: Option<&OurRefund>) -> Vec<Difference> {
    let mut found = Vec::new();
    let is_ours = |key: &str| ours.is_some_and(|refund| refund.key == key);
    for refund in &charge.refunds {
        if !is_ours(&refund.idempotency_key) {
            let detail = format!("{} under {}", refund.amount, refund.idempotency_key);
            found.push(charge.differs("refund_not_recorded", detail, "flagged"));
        }
    }
    let given_back: i64 = charge.refunds.iter().map(|refund| refund.amount).sum();
    if given_back > charge.amount {
        let detail = format!("{given_back} refunded of {}", charge.amount);
        found.push(charge.differs("refunded_twice", detail, "flagged"));
    }
    let theirs = |key: &str| charge.refunds.iter().any(|it| it.idempotency_key == key);
    if let Some(refund) = ours.filter(|refund| !refund.status.is_open() && !theirs(&refund.key)) {
        let detail = format!("recorded under {}", refund.key);
        found.push(charge.differs("refund_not_in_books", detail, "flagged"));
    }
    found
}

/// Captured attempts in a page's range whose charge is not on the page.
pub fn not_in_books<'a>(
    charges: &[Charge],
    captured: &'a [Attempt],
) -> impl Iterator<Item = Difference> + 'a {
    let ids: HashSet<String> = charges.iter().map(|it| it.id.clone()).collect();
    captured.iter().filter_map(move |attempt| {
        let charge_id = attempt.charge_id.clone()?;
        (!ids.contains(&charge_id)).then(|| Difference {
            kind: "charge_not_in_books",
            charge_id,
            reference: attempt.order_id.to_string(),
            detail: format!("attempt {} is captured here", attempt.attempt),
            action: "flagged",
        })
    })
}

impl Charge {
    pub fn differs(&self, kind: &'static str, detail: String, action: &'static str) -> Difference {
        Difference {
            kind,
            charge_id: self.id.clone(),
            reference: self.reference.clone(),
            detail,
            action,
        }
    }
}

#[cfg(test)]
mod tests;
