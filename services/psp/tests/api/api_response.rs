//! A response of the provider.

use reqwest::{Response, StatusCode};
use serde_json::Value;

/// The parts of a response that tests check.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    pub(crate) replayed: bool,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
}

impl ApiResponse {
    pub(crate) async fn read(response: Response) -> reqwest::Result<Self> {
        let headers = response.headers();
        Ok(Self {
            status: response.status(),
            replayed: headers
                .get("idempotent-replayed")
                .is_some_and(|value| value == "true"),
            retry_after: headers
                .get("retry-after")
                .map(|value| value.to_str().unwrap().to_owned()),
            text: response.text().await?,
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }
}
