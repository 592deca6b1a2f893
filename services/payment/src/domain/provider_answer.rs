//! Interprets the provider's responses: whether money moved.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The meaning of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderAnswer {
    Captured {
        charge_id: String,
    },
    /// Definite: no money moved under this key, and none will.
    Declined {
        code: String,
    },
    /// The key was cancelled: no money moved under it, and none will.
    Cancelled,
    Refunded {
        refund_id: String,
    },
    /// Definite: the provider's ledger has no entry under the key. The same key may be sent again, as
    /// if for the first time.
    Absent,
    /// Anything else. The money may have moved, so only the same key may be sent again.
    Unknown {
        reason: String,
        retry_after: Option<Duration>,
    },
}

impl ProviderAnswer {
    /// Label of the metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Captured { .. } => "captured",
            Self::Declined { .. } => "declined",
            Self::Cancelled => "cancelled",
            Self::Refunded { .. } => "refunded",
            Self::Absent => "absent",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// A raw HTTP response.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
    pub retry_after: Option<Duration>,
}

/// A charge or a refund.
#[derive(Deserialize)]
struct Entry {
    id: String,
    status: String,
    #[serde(default)]
    idempotency_key: String,
}

#[derive(Deserialize)]
struct Decline {
    error: DeclineReason,
}

#[derive(Deserialize)]
struct DeclineReason {
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

/// Reads the response to a charge. Everything that is not clearly a capture or a decline is
/// unknown: a 5xx, 409 or 429, and also an unreadable body.
pub fn read_charge(response: &Response) -> ProviderAnswer {
    match response.status {
        200 | 201 => match response.parse::<Entry>() {
            Ok(charge) if charge.status == "captured" => ProviderAnswer::Captured {
                charge_id: charge.id,
            },
            Ok(charge) => response.unknown_because(format!("a charge in status {}", charge.status)),
            Err(unknown) => unknown,
        },
        402 => match response.parse::<Decline>() {
            Ok(decline) => ProviderAnswer::Declined {
                code: decline.error.code,
            },
            Err(unknown) => unknown,
        },
        _ => response.unknown(),
    }
}

/// Reads the response to a cancellation: the key was used, or it never will be.
pub fn read_cancellation(response: &Response) -> ProviderAnswer {
    if response.status != 200 {
        return response.unknown();
    }
    match response.parse::<Cancellation>() {
        Ok(Cancellation {
            charge: Some(charge),
            status,
        }) if status == "captured" => ProviderAnswer::Captured {
            charge_id: charge.id,
        },
        Ok(Cancellation { status, .. }) if status == "cancelled" => ProviderAnswer::Cancelled,
        Ok(other) => response.unknown_because(format!("a cancellation in status {}", other.status)),
        Err(unknown) => unknown,
    }
}

pub fn read_refund(response: &Response) -> ProviderAnswer {
    match response.status {
        200 | 201 => match response.parse::<Entry>() {
            Ok(refund) if refund.status == "refunded" => ProviderAnswer::Refunded {
                refund_id: refund.id,
            },
            Ok(refund) => response.unknown_because(format!("a refund in status {}", refund.status)),
            Err(unknown) => unknown,
        },
        _ => response.unknown(),
    }
}

/// Reads the ledger entries under the attempt's key and under its order. The charge is absent only
/// if both lists are empty. A charge under another key of the same order is left to the reconciler:
/// the order must not be charged again.
pub fn read_charge_lookup(key: &str, by_key: &Response, by_reference: &Response) -> ProviderAnswer {
    let lists = (by_key.list(), by_reference.list());
    let (by_key, by_reference) = match lists {
        (Ok(by_key), Ok(by_reference)) => (by_key, by_reference),
        (Err(unknown), _) | (_, Err(unknown)) => return unknown,
    };
    let all: Vec<Entry> = by_key.into_iter().chain(by_reference).collect();
    match all.iter().find(|charge| charge.idempotency_key == key) {
        Some(charge) => ProviderAnswer::Captured {
            charge_id: charge.id.clone(),
        },
        None if all.is_empty() => ProviderAnswer::Absent,
        None => ProviderAnswer::Unknown {
            reason: "the order is charged under another key".to_owned(),
            retry_after: None,
        },
    }
}

pub fn read_refund_lookup(key: &str, by_key: &Response) -> ProviderAnswer {
    match by_key.list() {
        Ok(found) => found
            .into_iter()
            // If the provider ignores the filter, another refund must not settle this one.
            .find(|refund| refund.idempotency_key == key)
            .map_or(ProviderAnswer::Absent, |refund| ProviderAnswer::Refunded {
                refund_id: refund.id,
            }),
        Err(unknown) => unknown,
    }
}

impl Response {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ProviderAnswer> {
        serde_json::from_slice(&self.body)
            .map_err(|_| self.unknown_because("an unreadable body".to_owned()))
    }

    fn list(&self) -> Result<Vec<Entry>, ProviderAnswer> {
        match self.status {
            200 => Ok(self.parse::<List>()?.data),
            _ => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> ProviderAnswer {
        ProviderAnswer::Unknown {
            reason: format!("status {}", self.status),
            retry_after: self.retry_after,
        }
    }

    fn unknown_because(&self, what: String) -> ProviderAnswer {
        ProviderAnswer::Unknown {
            reason: format!("{} with {what}", self.status),
            retry_after: self.retry_after,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
