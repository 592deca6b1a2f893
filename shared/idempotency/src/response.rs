//! An answer as it is stored, to be given again byte by byte.

use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    pub status: u16,
    /// Content headers only, lower-case names; never a secret or a one-time token.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl StoredResponse {
    /// The format that is written today.
    pub const VERSION: i16 = 1;

    /// How the headers are stored.
    pub fn headers_json(&self) -> Value {
        let members = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect::<Map<_, _>>();
        Value::Object(members)
    }

    /// `None` for a version that this code has never heard of.
    pub(crate) fn read(version: i16, status: i16, headers: Value, body: Vec<u8>) -> Option<Self> {
        if version != Self::VERSION {
            return None;
        }
        let Value::Object(members) = headers else {
            return None;
        };
        let headers = members
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())))
            .collect();
        Some(Self {
            status: u16::try_from(status).ok()?,
            headers,
            body,
        })
    }
}
