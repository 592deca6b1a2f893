//! Conversions: a malformed key into a request error, and a problem into a stored response.

use service_kit::{Problem, RequestError, problem};

use crate::{MalformedKey, StoredResponse};

impl From<MalformedKey> for RequestError {
    fn from(error: MalformedKey) -> Self {
        Self::MalformedKey(error.to_string())
    }
}

/// A final problem is stored under the key and replayed, like any other result.
impl From<&Problem> for StoredResponse {
    fn from(problem: &Problem) -> Self {
        let content_type = ("content-type".to_owned(), problem::CONTENT_TYPE.to_owned());
        Self {
            status: problem.status().as_u16(),
            headers: vec![content_type],
            body: problem.body(),
        }
    }
}
