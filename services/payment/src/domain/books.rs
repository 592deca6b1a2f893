//! Compares entries of the provider's books with rows of our tables, and classifies each pair.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::provider_key::parse_charge_key;
use crate::domain::{AttemptStatus, RefundStatus};

/// One page of the provider's books.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub charges: Vec<Charge>,
    pub unreadable: Vec<Unreadable>,
    /// The next `after`; absent on the last page.
    pub next: Option<String>,
}

/// An entry that does not have the form of a charge.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Empty if not even the id is readable.
    pub id: String,
    pub reason: String,
}

/// A charge in the provider's books.
#[derive(Clone, Debug, Deserialize)]
pub struct Charge {
    pub id: String,
    pub status: ChargeStatus,
    pub reference: String,
    pub amount: i64,
    pub currency: String,
    pub idempotency_key: String,
    pub created_at: chrono::DateTime<chrono::Utc>,
    #[serde(default)]
    pub refunds: Vec<Refund>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChargeStatus {
    /// The provider decides later.
    Pending,
    Captured,
    /// No money moved, and none will.
    Failed,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Refund {
    pub id: String,
    pub status: RefundEntryStatus,
    pub idempotency_key: String,
    pub amount: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundEntryStatus {
    Pending,
    Refunded,
    Failed,
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
    /// Both sides agree, or no money has moved yet.
    Agrees,
    /// The attempt is still open, and the charge settles it.
    Settle,
    /// The attempt that its key names is known, and does not own the charge, for this reason. The charge
    /// is refunded.
    Contradiction(&'static str),
    /// We do not know why the money was taken: no attempt has the key, or we did not create it. Only an
    /// operator may refund it.
    Unexplained(&'static str),
    /// Our attempt is captured, but the provider has not captured the charge.
    NotCaptured,
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
    let owns = |attempt: &Attempt| {
        attempt.status == AttemptStatus::Captured && attempt.charge_id.as_ref() == Some(&charge.id)
    };
    match (charge.status, attempt) {
        (ChargeStatus::Pending | ChargeStatus::Failed, Some(attempt)) if owns(attempt) => {
            Finding::NotCaptured
        }
        // A charger looks up how it ends.
        (ChargeStatus::Pending | ChargeStatus::Failed, _) => Finding::Agrees,
        (ChargeStatus::Captured, Some(attempt)) => match attempt.status {
            _ if owns(attempt) => Finding::Agrees,
            // An operator decides which of the two is wrong.
            _ if amount_differs(charge, attempt).is_some() => {
                Finding::Unexplained("its attempt has another amount")
            }
            AttemptStatus::Pending | AttemptStatus::Unknown => Finding::Settle,
            AttemptStatus::Captured => Finding::Contradiction("its attempt has another charge"),
            AttemptStatus::Declined => Finding::Contradiction("its attempt was declined"),
            AttemptStatus::Voided => Finding::Contradiction("its attempt was voided"),
            AttemptStatus::Failed => Finding::Contradiction("its attempt has failed"),
        },
        (ChargeStatus::Captured, None) => {
            if parse_charge_key(&charge.idempotency_key).is_some() {
                Finding::Unexplained("no attempt has its key")
            } else {
                Finding::Unexplained("its key is not ours")
            }
        }
    }
}

/// The difference between the amounts, for a charge that its attempt owns.
pub fn amount_differs(charge: &Charge, attempt: &Attempt) -> Option<Difference> {
    // A voided attempt that never arrived has no amount.
    let same = attempt.amount == 0
        || charge.amount == attempt.amount && charge.currency == attempt.currency;
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
    let mut made = charge.made_refunds();
    if let Some(own) = made.find(|refund| refund.idempotency_key == open.key) {
        return Some(&own.id);
    }
    // An operator has refunded all of it manually: ours must not be sent any more.
    charge.refunded_in_full()
}

/// The differences of a charge's refunds, except those that [`refund_to_settle`] settles.
pub fn refund_differences(charge: &Charge, ours: Option<&OurRefund>) -> Vec<Difference> {
    let mut found = Vec::new();
    let is_ours = |key: &str| ours.is_some_and(|refund| refund.key == key);
    let theirs = |key: &str| charge.made_refunds().any(|it| it.idempotency_key == key);
    // The charge was manually refunded in full, and that settles our refund.
    let settled_manually =
        charge.refunded_in_full().is_some() && ours.is_some_and(|refund| !theirs(&refund.key));
    for refund in charge.made_refunds() {
        if !is_ours(&refund.idempotency_key) && !settled_manually {
            let detail = format!("{} under {}", refund.amount, refund.idempotency_key);
            found.push(charge.differs("refund_not_recorded", detail, "flagged"));
        }
    }
    let refunded = charge.refunded_amount();
    if refunded > charge.amount {
        let detail = format!("{refunded} refunded of {}", charge.amount);
        found.push(charge.differs("refunded_twice", detail, "flagged"));
    }
    let is_missing = |refund: &&OurRefund| {
        refund.status == RefundStatus::Refunded && !theirs(&refund.key) && !settled_manually
    };
    if let Some(refund) = ours.filter(is_missing) {
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
    /// Refunds that have moved money.
    fn made_refunds(&self) -> impl Iterator<Item = &Refund> {
        let refunds = self.refunds.iter();
        refunds.filter(|refund| refund.status == RefundEntryStatus::Refunded)
    }

    fn refunded_amount(&self) -> i64 {
        self.made_refunds().map(|refund| refund.amount).sum()
    }

    /// The last refund, if the whole charge was refunded.
    pub fn refunded_in_full(&self) -> Option<&str> {
        let last = self.made_refunds().last()?;
        (self.refunded_amount() >= self.amount).then_some(&*last.id)
    }

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
