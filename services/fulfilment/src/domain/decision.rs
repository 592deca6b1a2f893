//! The decision about an order: it ships, or it is rejected.

/// Fulfilment alone decides this, once per order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Ship,
    Reject(RejectionReason),
}

/// Why an order does not ship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionReason {
    OutOfStock,
    /// The cancellation request arrived before the payment.
    Cancelled,
}

impl Decision {
    pub const ALL: [Self; 3] = [
        Self::Ship,
        Self::Reject(RejectionReason::OutOfStock),
        Self::Reject(RejectionReason::Cancelled),
    ];

    pub const fn rejection_reason(self) -> Option<RejectionReason> {
        match self {
            Self::Ship => None,
            Self::Reject(reason) => Some(reason),
        }
    }
}

impl RejectionReason {
    pub const ALL: [Self; 2] = [Self::OutOfStock, Self::Cancelled];

    /// The reason with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// The text in the database and in `fulfilment.rejected`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OutOfStock => "out_of_stock",
            Self::Cancelled => "cancelled",
        }
    }
}
