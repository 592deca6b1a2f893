//! What the provider's words mean for the money.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The provider's answer to an errand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Captured {
        charge_id: String,
    },
    /// Definite: no money moved under this key, and none will.
    Declined {
        code: String,
    },
    /// The key is out of use: no money moved under it, and none will.
    Cancelled,
    Refunded {
        refund_id: String,
    },
    /// The provider's own word that its books hold nothing under the key. The same key may be sent
    /// again, as if for the first time.
    Absent,
    /// Anything else. It may have been done: only the same key may be sent again.
    Unknown {
        reason: String,
        retry_after: Option<Duration>,
    },
}

impl Answer {
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

/// An HTTP answer as it came.
#[derive(Clone, Debug)]
pub struct Reply {
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

/// Reads the answer to a charge. Whatever is not plainly a capture or a decline is unknown: a
/// time-out, a reset, a 5xx, 409 or 429, but also a body that makes no sense.
pub fn of_charge(reply: &Reply) -> Answer {
    match reply.status {
        200 | 201 => match reply.parse::<Entry>() {
            Ok(charge) if charge.status == "captured" => Answer::Captured {
                charge_id: charge.id,
            },
            Ok(charge) => reply.unknown_because(format!("a charge that is {}", charge.status)),
            Err(unknown) => unknown,
        },
        402 => match reply.parse::<Decline>() {
            Ok(decline) => Answer::Declined {
                code: decline.error.code,
            },
            Err(unknown) => unknown,
        },
        _ => reply.unknown(),
    }
}

/// Reads the answer to a cancellation: the key was used, or it never will be.
pub fn of_cancellation(reply: &Reply) -> Answer {
    if reply.status != 200 {
        return reply.unknown();
    }
    match reply.parse::<Cancellation>() {
        Ok(Cancellation {
            charge: Some(charge),
            status,
        }) if status == "captured" => Answer::Captured {
            charge_id: charge.id,
        },
        Ok(Cancellation { status, .. }) if status == "cancelled" => Answer::Cancelled,
        Ok(other) => reply.unknown_because(format!("a cancellation that is {}", other.status)),
        Err(unknown) => unknown,
    }
}

pub fn of_refund(reply: &Reply) -> Answer {
    match reply.status {
        200 | 201 => match reply.parse::<Entry>() {
            Ok(refund) if refund.status == "refunded" => Answer::Refunded {
                refund_id: refund.id,
            },
            Ok(refund) => reply.unknown_because(format!("a refund that is {}", refund.status)),
            Err(unknown) => unknown,
        },
        _ => reply.unknown(),
    }
}

/// Reads what the books hold under the attempt's key and under its order. Only if both are empty is
/// there nothing: a charge under another key of the same order is a matter for the reconciler, and
/// no reason to charge once more.
pub fn of_charge_lookup(key: &str, by_key: &Reply, by_reference: &Reply) -> Answer {
    let lists = (by_key.list(), by_reference.list());
    let (by_key, by_reference) = match lists {
        (Ok(by_key), Ok(by_reference)) => (by_key, by_reference),
        (Err(unknown), _) | (_, Err(unknown)) => return unknown,
    };
    let all: Vec<Entry> = by_key.into_iter().chain(by_reference).collect();
    match all.iter().find(|charge| charge.idempotency_key == key) {
        Some(charge) => Answer::Captured {
            charge_id: charge.id.clone(),
        },
        None if all.is_empty() => Answer::Absent,
        None => Answer::Unknown {
            reason: "the order is charged under another key".to_owned(),
            retry_after: None,
        },
    }
}

pub fn of_refund_lookup(key: &str, by_key: &Reply) -> Answer {
    match by_key.list() {
        Ok(found) => found
            .into_iter()
            // A provider that does not know the filter must not settle ours with another's.
            .find(|refund| refund.idempotency_key == key)
            .map_or(Answer::Absent, |refund| Answer::Refunded {
                refund_id: refund.id,
            }),
        Err(unknown) => unknown,
    }
}

impl Reply {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, Answer> {
        serde_json::from_slice(&self.body)
            .map_err(|_| self.unknown_because("an unreadable body".to_owned()))
    }

    fn list(&self) -> Result<Vec<Entry>, Answer> {
        match self.status {
            200 => Ok(self.parse::<List>()?.data),
            _ => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> Answer {
        Answer::Unknown {
            reason: format!("status {}", self.status),
            retry_after: self.retry_after,
        }
    }

    fn unknown_because(&self, what: String) -> Answer {
        Answer::Unknown {
            reason: format!("{} with {what}", self.status),
            retry_after: self.retry_after,
        }
    }
}

#[cfg(test)]
mod tests;
