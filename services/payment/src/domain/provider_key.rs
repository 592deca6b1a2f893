//! Idempotency keys for the provider.
//!
//! A key is derived from stored data only, so every owner of a row sends the same key.

use uuid::Uuid;

/// The key of a charge.
pub fn charge_key(order_id: Uuid, attempt: i32) -> String {
    format!("pay:{order_id}:{attempt}")
}

/// The reference of a direct charge: its name at the provider beside the key. Not the id alone, because
/// that may also be the id, and so the reference, of an order.
pub fn direct_reference(payment_id: Uuid) -> String {
    format!("direct:{payment_id}")
}

/// The key of the refund of an attempt.
pub fn refund_key(order_id: Uuid, attempt: i32) -> String {
    format!("refund:{order_id}:{attempt}")
}

/// The key of the refund of an orphan charge. It contains the charge, because the order may also have
/// a refund under [`refund_key`].
pub fn orphan_refund_key(charge_id: &str) -> String {
    format!("refund:orphan:{charge_id}")
}

/// Order and attempt of a charge's key; `None` for a key that this service did not create.
pub fn parse_charge_key(key: &str) -> Option<(Uuid, i32)> {
    let (order, attempt) = key.strip_prefix("pay:")?.split_once(':')?;
    let parsed = (order.parse().ok()?, attempt.parse().ok()?);
    // Only the spelling that we send: any other spelling is a different key at the provider.
    (charge_key(parsed.0, parsed.1) == key).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_contain_only_stored_data() {
        let id = Uuid::from_u128(7);
        let order = "00000000-0000-0000-0000-000000000007";
        assert_eq!(charge_key(id, 2), format!("pay:{order}:2"));
        assert_eq!(refund_key(id, 2), format!("refund:{order}:2"));
        assert_eq!(orphan_refund_key("ch-1"), "refund:orphan:ch-1");
    }

    #[test]
    fn charge_key_round_trips_in_one_spelling() {
        let id = Uuid::from_u128(0xabc);
        assert_eq!(parse_charge_key(&charge_key(id, 3)), Some((id, 3)));
        for foreign in [
            format!("pay:{id}:03"),
            format!("pay:{id}"),
            format!("pay:{}:1", id.to_string().to_uppercase()),
            format!("refund:{id}:1"),
            "pay:x:1".to_owned(),
        ] {
            assert_eq!(parse_charge_key(&foreign), None, "{foreign}");
        }
    }
}
