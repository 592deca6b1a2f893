//! What a payment attempt is and may become: pure, no IO.

pub mod answer;
pub mod status;

use uuid::Uuid;

pub use answer::Answer;
pub use status::{Status, next};

/// The provider's idempotency key for an attempt. Made of durable data alone, so that whoever takes
/// the attempt over after a crash sends the very same one.
pub fn charge_key(order_id: Uuid, attempt: i32) -> String {
    format!("pay:{order_id}:{attempt}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_of_order_and_attempt_alone() {
        let id = Uuid::from_u128(7);
        assert_eq!(
            charge_key(id, 2),
            "pay:00000000-0000-0000-0000-000000000007:2"
        );
    }
}
