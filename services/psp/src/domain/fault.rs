//! Faults: where they apply, what they do, and which requests they affect.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest delay of a fault.
pub const DELAY_MS_MAX: u64 = 600_000;
/// The status of an `error` fault that names none.
const STATUS_DEFAULT: u16 = 500;
/// Longest code of an `error` fault.
pub const CODE_LEN_MAX: usize = 64;

/// A fault as it is posted and listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub point: Point,
    pub action: Action,
    /// For `delay`: how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// For `error`: any status that is an error for the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// For `error`: the code in the body; without it, one that fits the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// For `error`: the `Retry-After` to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// How many times it applies; without it, until it is cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The probability that it applies, from 0 to 1.
    #[serde(default = "always")]
    pub probability: f64,
    /// Only requests with this reference; without it, every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// The request has neither claimed its key nor charged.
    BeforeCharge,
    /// The key is in flight, nothing is charged yet. Replays do not pass this point.
    DuringCharge,
    /// Charge and response are committed, the response is not sent.
    AfterCharge,
    /// The same three for a refund.
    BeforeRefund,
    DuringRefund,
    AfterRefund,
    /// The key to cancel is unchanged.
    BeforeCancel,
    /// The key is cancelled, or was found charged; the response is not sent.
    AfterCancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The request continues after the delay.
    Delay,
    /// The connection is closed without a response.
    Drop,
    /// The connection stays open without a response.
    Hang,
    /// The response is an error.
    Error,
}

/// What a fault does to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppliedFault {
    Delay(Duration),
    Drop,
    Hang,
    Fail(Failure),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub status: u16,
    pub code: Option<String>,
    pub retry_after_seconds: Option<u32>,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    #[error("a delay fault needs delay_ms of at most {DELAY_MS_MAX}")]
    Delay,
    #[error("the status of an error must be from 400 to 599")]
    Status,
    #[error("the code of an error must be 1 to {CODE_LEN_MAX} visible ASCII characters")]
    Code,
    #[error("probability must be from 0 to 1")]
    Probability,
    #[error("times must be at least 1")]
    Times,
}

impl Fault {
    pub fn check(&self) -> Result<(), Invalid> {
        if self.action == Action::Delay && self.delay_ms.is_none_or(|ms| ms > DELAY_MS_MAX) {
            return Err(Invalid::Delay);
        }
        if !matches!(self.status, None | Some(400..=599)) {
            return Err(Invalid::Status);
        }
        if !self.code.as_deref().is_none_or(is_code) {
            return Err(Invalid::Code);
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(Invalid::Probability);
        }
        if self.times == Some(0) {
            return Err(Invalid::Times);
        }
        Ok(())
    }

    /// Whether it is armed for this point and this reference.
    pub fn matches(&self, point: Point, reference: &str) -> bool {
        self.point == point
            && self
                .reference
                .as_deref()
                .is_none_or(|only| only == reference)
    }

    pub fn is_spent(&self, fired: u32) -> bool {
        self.times.is_some_and(|times| fired >= times)
    }

    /// `roll` is random in [0, 1): probability 1 always applies, 0 never.
    pub fn applies(&self, roll: f64) -> bool {
        roll < self.probability
    }

    pub fn apply(&self) -> AppliedFault {
        match self.action {
            Action::Delay => AppliedFault::Delay(Duration::from_millis(self.delay_ms.unwrap_or(0))),
            Action::Drop => AppliedFault::Drop,
            Action::Hang => AppliedFault::Hang,
            Action::Error => AppliedFault::Fail(Failure {
                status: self.status.unwrap_or(STATUS_DEFAULT),
                code: self.code.clone(),
                retry_after_seconds: self.retry_after_seconds,
            }),
        }
    }
}

impl Failure {
    /// Whether a provider that stores its 5xx stores this one. A 4xx is never stored: the provider did
    /// not accept the request, or asks for a retry.
    pub fn is_final(&self) -> bool {
        self.status >= 500
    }
}

fn is_code(code: &str) -> bool {
    (1..=CODE_LEN_MAX).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_graphic())
}

fn always() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(json: &str) -> Fault {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn fault_matches_only_its_point_and_reference() {
        let every = fault(r#"{"point":"after_charge","action":"drop"}"#);
        let one = fault(r#"{"point":"after_charge","action":"drop","reference":"o-1"}"#);
        assert!(every.matches(Point::AfterCharge, "o-2"));
        assert!(!every.matches(Point::BeforeCharge, "o-2"));
        assert!(one.matches(Point::AfterCharge, "o-1"));
        assert!(!one.matches(Point::AfterCharge, "o-2"));
    }

    #[test]
    fn invalid_faults_fail_the_check() {
        for (members, expected) in [
            (r#""action":"delay""#, Err(Invalid::Delay)),
            (r#""action":"delay","delay_ms":600001"#, Err(Invalid::Delay)),
            (r#""action":"error","status":200"#, Err(Invalid::Status)),
            (
                r#""action":"drop","probability":1.5"#,
                Err(Invalid::Probability),
            ),
            (r#""action":"drop","times":0"#, Err(Invalid::Times)),
            (r#""action":"error","status":399"#, Err(Invalid::Status)),
            (r#""action":"error","status":400"#, Ok(())),
            (r#""action":"error","status":599"#, Ok(())),
            (r#""action":"error","status":600"#, Err(Invalid::Status)),
            (r#""action":"error","code":"""#, Err(Invalid::Code)),
            (r#""action":"error","code":"two words""#, Err(Invalid::Code)),
            (r#""action":"error","code":"account_closed""#, Ok(())),
        ] {
            let json = format!(r#"{{"point":"before_charge",{members}}}"#);
            assert_eq!(fault(&json).check(), expected, "{members}");
        }
    }

    #[test]
    fn fault_without_times_is_never_spent() {
        assert!(!fault(r#"{"point":"before_charge","action":"hang"}"#).is_spent(u32::MAX));
        let twice = fault(r#"{"point":"before_charge","action":"hang","times":2}"#);
        assert_eq!([1, 2].map(|fired| twice.is_spent(fired)), [false, true]);
    }
}
