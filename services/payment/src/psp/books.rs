//! The provider's books, page by page.

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
    /// Charges in the order of their ids, from behind `after`.
    pub async fn ledger(&self, after: &str, limit: u32) -> anyhow::Result<Page> {
        let limit = limit.to_string();
        let request = self.http.get(self.ledger_url.clone());
        let reply = send(request.query(&[("after", after), ("limit", &limit)]))
            .await
            .context("reading the provider's books")?;
        anyhow::ensure!(
            reply.status == 200,
            "the provider's books answered {}",
            reply.status
        );
        serde_json::from_slice(&reply.body).context("the provider's books make no sense")
    }
}
