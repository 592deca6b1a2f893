//! A response as it is stored, to be replayed byte for byte.

use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    pub status: u16,
    /// Content headers only, with lower-case names. Never store a secret or a one-time token.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Headers as an object: one value per name, unordered. No longer written, but still read.
const HEADERS_AS_OBJECT: i16 = 1;
/// Headers as an array of `[name, value]`: keeps their order and repeated names.
const HEADERS_AS_PAIRS: i16 = 2;

impl StoredResponse {
    /// The format that this version writes.
    pub const VERSION: i16 = HEADERS_AS_PAIRS;

    /// The headers in the stored format.
    pub fn headers_json(&self) -> Value {
        let pairs = self.headers.iter();
        pairs
            .map(|(name, value)| Value::from(vec![name.as_str(), value.as_str()]))
            .collect()
    }

    /// Returns `None` if the version is unknown, or if the headers do not have the format of their
    /// version.
    pub(crate) fn read(version: i16, status: i16, headers: Value, body: Vec<u8>) -> Option<Self> {
        let headers = match (version, headers) {
            (HEADERS_AS_OBJECT, Value::Object(members)) => from_object(members)?,
            (HEADERS_AS_PAIRS, Value::Array(pairs)) => from_pairs(pairs)?,
            _ => return None,
        };
        Some(Self {
            status: u16::try_from(status).ok()?,
            headers,
            body,
        })
    }
}

fn from_object(members: Map<String, Value>) -> Option<Vec<(String, String)>> {
    members
        .into_iter()
        .map(|(name, value)| Some((name, value.as_str()?.to_owned())))
        .collect()
}

fn from_pairs(pairs: Vec<Value>) -> Option<Vec<(String, String)>> {
    pairs
        .iter()
        .map(|pair| match pair.as_array()?.as_slice() {
            [Value::String(name), Value::String(value)] => Some((name.clone(), value.clone())),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_in_the_wrong_format_are_unreadable() {
        for (version, headers) in [
            (0, json!({})),
            (1, json!([["a", "b"]])),
            (1, json!({"a": 1})),
            (2, json!({"a": "b"})),
            (2, json!([["a"]])),
            (2, json!([["a", "b", "c"]])),
            (2, json!([["a", null]])),
            (3, json!([])),
        ] {
            let read = StoredResponse::read(version, 200, headers.clone(), Vec::new());
            assert_eq!(read, None, "{version} {headers}");
        }
    }
}
