//! What a key can be used for, and where faults strike it.

use crate::domain::fault::Point;

/// The operations that move money, and so need a key of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Charge,
    Refund,
}

/// Where a request can be struck on its way, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Points {
    pub before: Point,
    pub during: Point,
    pub after: Point,
}

impl Operation {
    /// The word under which a key's row says what the key was used for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
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
