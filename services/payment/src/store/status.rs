//! Reads the statuses of attempts, keys, refunds and unexplained charges from their text columns.

use std::str::FromStr as _;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef, Postgres};
use sqlx::{Decode, Type};

use crate::domain::{AttemptStatus, KeyState, RefundStatus, UnexplainedStatus};

macro_rules! decode_from_text {
    ($status:ty) => {
        impl Type<Postgres> for $status {
            fn type_info() -> PgTypeInfo {
                <str as Type<Postgres>>::type_info()
            }

            fn compatible(column: &PgTypeInfo) -> bool {
                <str as Type<Postgres>>::compatible(column)
            }
        }

        impl<'r> Decode<'r, Postgres> for $status {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                let name = <&str as Decode<Postgres>>::decode(value)?;
                Ok(Self::from_str(name)?)
            }
        }
    };
}

decode_from_text!(AttemptStatus);
decode_from_text!(KeyState);
decode_from_text!(RefundStatus);
decode_from_text!(UnexplainedStatus);
