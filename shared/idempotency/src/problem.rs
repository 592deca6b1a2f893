//! A malformed key as a request error, and a problem as a stored response.

use service_kit::{Problem, RequestError, problem};

use crate::{MalformedKey, StoredResponse};

impl From<MalformedKey> for RequestError {
    fn from(error: MalformedKey) -> Self {
        Self::MalformedKey(error.to_string())
    }
}

/// A definite failure is a result too: it is stored under the key and replayed.
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
