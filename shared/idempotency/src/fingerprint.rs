//! Fingerprints: they distinguish a repeated request from another request with the same key.

use serde_json::Value;
use service_kit::json::canonical;
use sha2::{Digest, Sha256};

/// SHA-256 of a JSON body in canonical form: members sorted, no insignificant whitespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; 32]);

/// SHA-256 over method, path and content, salted per principal. Two merchants with the same order have
/// different fingerprints, so a leaked table does not show which requests are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl ContentHash {
    pub fn of(body: &Value) -> Self {
        Self(Sha256::digest(canonical(body)).into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Fingerprint {
    pub fn of(salt: &[u8], method: &str, path: &str, content: &ContentHash) -> Self {
        Self(hash_parts(&[
            salt,
            method.as_bytes(),
            path.as_bytes(),
            &content.0,
        ]))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The id of an advisory lock: the first 64 bits of the hash of the parts.
pub(crate) fn lock_id(parts: &[&str]) -> i64 {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let hash = hash_parts(&parts);
    i64::from_be_bytes([
        hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7],
    ])
}

/// Hashes each part with its length, so that `["ab", "c"]` and `["a", "bc"]` differ.
fn hash_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("\\PC{0,6}", inner, 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same value in another spelling: members reversed, whitespace everywhere.
    fn respell(value: &Value) -> String {
        match value {
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(respell).collect();
                format!("[ {} ]", items.join(" ,\n"))
            }
            Value::Object(members) => {
                let members: Vec<String> = members
                    .iter()
                    .rev()
                    .map(|(name, value)| format!("{}\t: {}", json!(name), respell(value)))
                    .collect();
                format!("{{ {} }}", members.join(" , "))
            }
            leaf => leaf.to_string(),
        }
    }

    proptest! {
        #[test]
        fn spelling_does_not_change_the_hash(value in any_json()) {
            let respelled: Value = serde_json::from_str(&respell(&value)).unwrap();
            prop_assert_eq!(ContentHash::of(&value), ContentHash::of(&respelled));
        }

        #[test]
        fn different_values_have_different_hashes(a in any_json(), b in any_json()) {
            prop_assert_eq!(a == b, ContentHash::of(&a) == ContentHash::of(&b));
        }

        #[test]
        fn canonical_form_is_a_fixed_point(value in any_json()) {
            let once = canonical(&value);
            let again = canonical(&serde_json::from_str(&once).unwrap());
            prop_assert_eq!(once, again);
        }

        #[test]
        fn every_part_changes_the_fingerprint(salt in any::<[u8; 4]>(), path in "/[a-z]{1,8}") {
            let content = ContentHash::of(&json!({"a": 1}));
            let fingerprint = Fingerprint::of(&salt, "POST", &path, &content);
            let other_content = ContentHash::of(&json!({"a": 2}));
            let longer = format!("{path}x");
            let other_salt = [salt.as_slice(), &[0]].concat();
            for other in [
                Fingerprint::of(&other_salt, "POST", &path, &content),
                Fingerprint::of(&salt, "PUT", &path, &content),
                Fingerprint::of(&salt, "POST", &longer, &content),
                Fingerprint::of(&salt, "POST", &path, &other_content),
            ] {
                prop_assert_ne!(fingerprint, other);
            }
        }
    }

    /// Keys and orders are stored with these hashes. With another one, a repeated request would look
    /// like another request. Passes with `--features serde_json/preserve_order` too.
    #[test]
    fn hashes_never_change() {
        let text = r#"{"payment_method": "pm_card_ok", "customer_id": "cust-é", "currency": "USD",
            "items": [{"unit_price": 2500, "sku": "SKU-99", "quantity": 2}], "reference": null}"#;
        let content = ContentHash::of(&serde_json::from_str(text).unwrap());
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let content_hex: String = hex(content.as_bytes());
        assert_eq!(
            content_hex,
            "ee4cb3425258001ed738d82ad0e026e82ad65bc28c92499447a8e80a850512d5"
        );
        let fingerprint = Fingerprint::of(b"salt", "POST", "/orders", &content);
        let fingerprint_hex: String = hex(fingerprint.as_bytes());
        assert_eq!(
            fingerprint_hex,
            "7fc93902544294d2b86374065d560469b52373871c2bf7c5e8a57a08f32a7507"
        );
    }
}
