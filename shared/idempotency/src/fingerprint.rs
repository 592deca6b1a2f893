//! Fingerprints: they distinguish a repeated request from another request with the same key.

use serde_json::Value;
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

/// The canonical text of a JSON value. `serde_json` keeps members in a sorted map and prints no
/// whitespace, which is all we need. A test fails if that changes.
fn canonical(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

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

    #[test]
    fn canonical_form_is_sorted_without_whitespace() {
        let mut members = Map::new();
        members.insert("b".to_owned(), json!([1, {"z": 0, "y": "x y"}]));
        members.insert("a".to_owned(), json!(null));
        let text = canonical(&Value::Object(members));
        assert_eq!(text, r#"{"a":null,"b":[1,{"y":"x y","z":0}]}"#);
    }
}
