//! The operations that move money, and the points where faults apply to them.

use crate::domain::fault::Point;
use crate::domain::key_use::KeyUse;

/// Each request for one of these needs its own key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Charge,
    Refund,
}

/// The points of one request, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Points {
    pub before: Point,
    pub during: Point,
    pub after: Point,
}

impl Operation {
    pub fn key_use(self) -> KeyUse {
        match self {
            Self::Charge => KeyUse::Charge,
            Self::Refund => KeyUse::Refund,
        }
    }

    pub fn points(self) -> Points {
        match self {
            Self::Charge => Points {
                before: Point::BeforeCharge,
                during: Point::DuringCharge,
                after: Point::AfterCharge,
            },
            Self::Refund => Points {
                before: Point::BeforeRefund,
                during: Point::DuringRefund,
                after: Point::AfterRefund,
            },
        }
    }
}
