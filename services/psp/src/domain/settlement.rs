//! What becomes of a charge or a refund whose outcome is not known immediately.

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::{charge, refund};

/// How the provider ends a charge or a refund after it has accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Succeeds,
    Fails(FailureCode),
}

/// When a charge or a refund ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processing {
    /// It succeeds before the response is sent.
    AtOnce,
    /// It is pending for `PSP_PROCESSING_MS`.
    Later(Ending),
}

/// Why a charge or a refund failed after it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCode {
    InsufficientFunds,
    AccountClosed,
}

/// The row's columns that say what becomes of a pending row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub outcome: &'static str,
    pub failure_code: Option<&'static str>,
    pub settles_at: DateTime<Utc>,
}

impl Processing {
    /// The first status of a charge.
    pub fn charge_status(self) -> charge::Status {
        match self {
            Self::AtOnce => charge::Status::Captured,
            Self::Later(_) => charge::Status::Pending,
        }
    }

    /// The first status of a refund.
    pub fn refund_status(self) -> refund::Status {
        match self {
            Self::AtOnce => refund::Status::Refunded,
            Self::Later(_) => refund::Status::Pending,
        }
    }

    pub fn of_charge(self, now: DateTime<Utc>, duration: TimeDelta) -> Option<Settlement> {
        let names = (
            charge::Status::Captured.as_str(),
            charge::Status::Failed.as_str(),
        );
        self.settlement(names, now + duration)
    }

    pub fn of_refund(self, now: DateTime<Utc>, duration: TimeDelta) -> Option<Settlement> {
        let names = (
            refund::Status::Refunded.as_str(),
            refund::Status::Failed.as_str(),
        );
        self.settlement(names, now + duration)
    }

    fn settlement(
        self,
        (succeeded, failed): (&'static str, &'static str),
        settles_at: DateTime<Utc>,
    ) -> Option<Settlement> {
        let (outcome, failure_code) = match self {
            Self::AtOnce => return None,
            Self::Later(Ending::Succeeds) => (succeeded, None),
            Self::Later(Ending::Fails(code)) => (failed, Some(code.as_str())),
        };
        Some(Settlement {
            outcome,
            failure_code,
            settles_at,
        })
    }
}

impl FailureCode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InsufficientFunds => "insufficient_funds",
            Self::AccountClosed => "account_closed",
        }
    }
}
