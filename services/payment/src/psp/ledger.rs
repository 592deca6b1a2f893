//! The provider's ledger, page by page.

use anyhow::Context as _;
use serde::Deserialize;

use super::{Client, send};
use crate::domain::books::Charge;

#[derive(Debug, Deserialize)]
pub struct Page {
    pub data: Vec<Charge>,
    /// The next `after`; absent on the last page.
    pub next: Option<String>,
}

impl Client {
    /// Charges in the order of their ids, starting after `after`.
    pub async fn ledger(&self, after: &str, limit: u32) -> anyhow::Result<Page> {
        let limit = limit.to_string();
        let request = self.http.get(self.ledger_url.clone());
        let response = send(request.query(&[("after", after), ("limit", &limit)]))
            .await
            .context("reading the provider's ledger")?;
        anyhow::ensure!(
            response.status == 200,
            "reading the provider's ledger failed with status {}",
            response.status
        );
        serde_json::from_slice(&response.body).context("the provider's ledger is unreadable")
    }
}
