//! Interprets the mock provider's responses.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::domain::{Leased, ProviderAnswer};

/// The code of a key that the provider knows with another request.
const KEY_REUSED: &str = "idempotency_key_reused";
/// The code of a charge that was refunded before. A lookup shows by which refund.
const ALREADY_REFUNDED: &str = "charge_already_refunded";
/// The code of a refund that cannot return the whole charge, because part of it was refunded manually.
const PARTIALLY_REFUNDED: &str = "partially_refunded";

/// A raw HTTP response.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    pub(super) retry_after: Option<Duration>,
    /// The provider stored this response for an earlier request with the same key.
    pub(super) replayed: bool,
}

/// What a charge or refund of this row must show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    reference: &'a str,
    amount: i64,
    currency: &'a str,
}

impl<'a> Expected<'a> {
    pub(super) fn of(leased: &'a Leased) -> Self {
        Self {
            reference: &leased.reference,
            amount: leased.amount,
            currency: &leased.currency,
        }
    }
}

/// A charge or a refund.
#[derive(Clone, Debug, Deserialize)]
struct Entry {
    id: String,
    status: String,
    reference: String,
    amount: i64,
    currency: String,
    idempotency_key: String,
    failure_code: Option<String>,
    /// Only refunds have it.
    charge_id: Option<String>,
    /// Only charges have them, and only in lookups.
    #[serde(default)]
    refunds: Vec<RefundOfCharge>,
}

/// A refund as its charge shows it.
#[derive(Clone, Debug, Deserialize)]
struct RefundOfCharge {
    id: String,
    status: String,
    amount: i64,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorCode,
}

#[derive(Deserialize)]
struct ErrorCode {
    code: String,
}

#[derive(Deserialize)]
struct Cancellation {
    status: String,
    charge: Option<Entry>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

/// The response to a charge.
pub(super) fn charge(expected: &Expected<'_>, response: &Response) -> ProviderAnswer {
    match response.status {
        200 | 201 => match response.parse::<Entry>() {
            Ok(entry) => entry.as_charge(expected, response),
            Err(unknown) => unknown,
        },
        402 => match response.code() {
            Some(code) => ProviderAnswer::Declined { code },
            None => response.unknown_because("an unreadable body"),
        },
        _ => response.error(),
    }
}

/// The response to a cancellation: the key was used, or it never will be.
pub(super) fn cancellation(expected: &Expected<'_>, response: &Response) -> ProviderAnswer {
    if response.status != 200 {
        // Not a definite error about the charge: the key may have been used.
        return match response.error() {
            ProviderAnswer::Failed { code } => response.not_accepted(&code),
            other => other,
        };
    }
    match response.parse::<Cancellation>() {
        Ok(Cancellation {
            charge: Some(charge),
            ..
        }) if charge.status != "failed" => charge.as_charge(expected, response),
        Ok(Cancellation { status, .. }) if status == "cancelled" => ProviderAnswer::Cancelled,
        Ok(other) => {
            response.unknown_because(&format!("a cancellation in status {}", other.status))
        }
        Err(unknown) => unknown,
    }
}

/// The response to a refund.
pub(super) fn refund(expected: &Expected<'_>, response: &Response) -> ProviderAnswer {
    match response.status {
        200 | 201 => match response.parse::<Entry>() {
            Ok(entry) => entry.as_refund(expected, response),
            Err(unknown) => unknown,
        },
        _ => match response.error() {
            // A lookup by charge shows who refunded it.
            ProviderAnswer::Failed { code } if code == ALREADY_REFUNDED => {
                ProviderAnswer::KeySpent { reason: code }
            }
            other => other,
        },
    }
}

/// The ledger entries under the attempt's key and under its order. The charge is absent only if no
/// money moved under either. A charge under another key of the same order is left to the reconciler: the
/// order must not be charged again.
pub(super) fn charge_lookup(
    expected: &Expected<'_>,
    key: &str,
    by_key: &Response,
    by_reference: &Response,
) -> ProviderAnswer {
    let (under_key, under_order) = match (by_key.list(), by_reference.list()) {
        (Ok(by_key), Ok(by_reference)) => (by_key, by_reference),
        (Err(unknown), _) | (_, Err(unknown)) => return unknown,
    };
    let all: Vec<Entry> = under_key.into_iter().chain(under_order).collect();
    let own = || all.iter().filter(|charge| charge.idempotency_key == key);
    // A provider that has forgotten the key may have charged twice under it. The one with money counts.
    let own = own()
        .find(|charge| charge.status != "failed")
        .or_else(|| own().next());
    match own {
        Some(charge) => charge.as_charge(expected, by_key),
        None if all.iter().all(|charge| charge.status == "failed") => ProviderAnswer::Absent,
        None => ProviderAnswer::Unknown {
            reason: "the order is charged under another key".to_owned(),
            retry_after: None,
        },
    }
}

/// The refund under the key, or else manual refunds of the charge.
pub(super) fn refund_lookup(
    expected: &Expected<'_>,
    key: &str,
    charge_id: &str,
    by_key: &Response,
    by_charge: &Response,
) -> ProviderAnswer {
    let (under_key, of_charge) = match (by_key.list(), by_charge.list()) {
        (Ok(by_key), Ok(by_charge)) => (by_key, by_charge),
        (Err(unknown), _) | (_, Err(unknown)) => return unknown,
    };
    // If the provider ignores the filter, another refund must not settle this one.
    if let Some(own) = under_key.iter().find(|it| it.idempotency_key == key) {
        return own.as_refund(expected, by_key);
    }
    let of_charge = of_charge.iter();
    let by_hand: Vec<&Entry> = of_charge
        .filter(|it| it.charge_id.as_deref() == Some(charge_id) && it.status != "failed")
        .collect();
    refunded_by_hand(expected, &by_hand, by_charge)
}

fn refunded_by_hand(
    expected: &Expected<'_>,
    by_hand: &[&Entry],
    response: &Response,
) -> ProviderAnswer {
    let Some(last) = by_hand.last() else {
        return ProviderAnswer::Absent;
    };
    let amount: i64 = by_hand.iter().map(|refund| refund.amount).sum();
    if by_hand.iter().any(|refund| refund.status == "pending") {
        ProviderAnswer::Processing
    } else if amount < expected.amount {
        let code = PARTIALLY_REFUNDED.to_owned();
        ProviderAnswer::Failed { code }
    } else if amount > expected.amount {
        response.not_accepted(&format!("{amount} refunded of {}", expected.amount))
    } else {
        ProviderAnswer::Refunded {
            refund_id: last.id.clone(),
        }
    }
}

impl Entry {
    fn as_charge(&self, expected: &Expected<'_>, response: &Response) -> ProviderAnswer {
        if let Some(mismatch) = self.mismatch(expected) {
            return response.not_accepted(&mismatch);
        }
        match &*self.status {
            "captured" => self.as_captured(),
            "pending" => ProviderAnswer::Processing,
            "failed" => ProviderAnswer::Failed {
                code: self.failure_code(),
            },
            other => response.unknown_because(&format!("a charge in status {other}")),
        }
    }

    fn as_captured(&self) -> ProviderAnswer {
        let mut returned = self.refunds.iter().filter(|it| it.status == "refunded");
        let amount: i64 = returned.clone().map(|it| it.amount).sum();
        let charge_id = self.id.clone();
        match returned.next_back() {
            Some(last) if amount >= self.amount => ProviderAnswer::RefundedByHand {
                charge_id,
                refund_id: last.id.clone(),
            },
            _ => ProviderAnswer::Captured { charge_id },
        }
    }

    fn as_refund(&self, expected: &Expected<'_>, response: &Response) -> ProviderAnswer {
        if let Some(mismatch) = self.mismatch(expected) {
            return response.not_accepted(&mismatch);
        }
        match &*self.status {
            "refunded" => ProviderAnswer::Refunded {
                refund_id: self.id.clone(),
            },
            "pending" => ProviderAnswer::Processing,
            "failed" => ProviderAnswer::Failed {
                code: self.failure_code(),
            },
            other => response.unknown_because(&format!("a refund in status {other}")),
        }
    }

    /// How the entry differs from what we asked for.
    fn mismatch(&self, expected: &Expected<'_>) -> Option<String> {
        let same = self.amount == expected.amount
            && self.currency == expected.currency
            && self.reference == expected.reference;
        (!same).then(|| {
            format!(
                "{} {} for {} instead of {} {} for {}",
                self.amount,
                self.currency,
                self.reference,
                expected.amount,
                expected.currency,
                expected.reference
            )
        })
    }

    fn failure_code(&self) -> String {
        let code = self.failure_code.as_deref();
        code.unwrap_or("failed").to_owned()
    }
}

impl Response {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ProviderAnswer> {
        serde_json::from_slice(&self.body).map_err(|_| self.unknown_because("an unreadable body"))
    }

    fn list(&self) -> Result<Vec<Entry>, ProviderAnswer> {
        match self.status {
            200 => Ok(self.parse::<List>()?.data),
            _ => Err(match self.error() {
                // A lookup that fails says nothing about the charge.
                ProviderAnswer::Failed { code } => self.not_accepted(&code),
                ProviderAnswer::KeySpent { .. } => self.unknown(),
                other => other,
            }),
        }
    }

    /// The machine-readable code of an error.
    fn code(&self) -> Option<String> {
        let body: ErrorBody = serde_json::from_slice(&self.body).ok()?;
        Some(body.error.code)
    }

    /// An error status. Only 400, 404 and 422 with a readable code are definite. A wrong credential, a
    /// limit or a key in flight says nothing about the charge, and must not end every order.
    fn error(&self) -> ProviderAnswer {
        match (self.status, self.code()) {
            (400 | 404 | 422, Some(code)) if code == KEY_REUSED => self.not_accepted(&code),
            (400 | 404 | 422, Some(code)) => ProviderAnswer::Failed { code },
            (401 | 403 | 408 | 409 | 425 | 429, _) => ProviderAnswer::NotAccepted {
                reason: format!("status {}", self.status),
                retry_after: self.retry_after,
            },
            (500..=599, _) if self.replayed => ProviderAnswer::KeySpent {
                reason: format!("status {}, replayed", self.status),
            },
            _ => self.unknown(),
        }
    }

    fn not_accepted(&self, why: &str) -> ProviderAnswer {
        ProviderAnswer::NotAccepted {
            reason: format!("{} with {why}", self.status),
            retry_after: self.retry_after,
        }
    }

    fn unknown(&self) -> ProviderAnswer {
        ProviderAnswer::Unknown {
            reason: format!("status {}", self.status),
            retry_after: self.retry_after,
        }
    }

    fn unknown_because(&self, what: &str) -> ProviderAnswer {
        ProviderAnswer::Unknown {
            reason: format!("{} with {what}", self.status),
            retry_after: self.retry_after,
        }
    }
}

#[cfg(test)]
mod tests;
