//! What a key was used for. The column `requests.operation` holds its name.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    Charge,
    Refund,
    /// The key is cancelled: no charge is made under it inside its window.
    Cancellation,
}

impl KeyUse {
    pub const ALL: [Self; 3] = [Self::Charge, Self::Refund, Self::Cancellation];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::Cancellation => "cancellation",
        }
    }
}
