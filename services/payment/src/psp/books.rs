//! The provider's ledger, page by page.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use super::{Client, send};
use crate::domain::books::{Charge, Page, Unreadable};

/// Longest page, in bytes. A charge with its refunds has about one kilobyte.
const PAGE_LEN_MAX: usize = 16 * 1_024 * 1_024;

#[derive(Deserialize)]
struct LedgerPage {
    data: Vec<Value>,
    next: Option<String>,
}

impl Client {
    /// Charges in the order of their ids, starting after `after`. An entry that cannot be read is
    /// returned as such: it must not hide the others.
    pub(super) async fn read_books(&self, after: &str, limit: u32) -> anyhow::Result<Page> {
        let limit = limit.to_string();
        let request = self.http.get(self.ledger_url.clone());
        let request = request.query(&[("after", after), ("limit", &limit)]);
        let response = send(request, PAGE_LEN_MAX)
            .await
            .context("reading the provider's ledger")?;
        anyhow::ensure!(
            response.status == 200,
            "reading the provider's ledger failed with status {}",
            response.status
        );
        let page: LedgerPage = serde_json::from_slice(&response.body)
            .context("the provider's ledger is unreadable")?;
        let mut read = Page {
            next: page.next,
            ..Page::default()
        };
        for entry in page.data {
            let id = entry["id"].as_str().unwrap_or_default().to_owned();
            match serde_json::from_value::<Charge>(entry) {
                Ok(charge) => read.charges.push(charge),
                Err(error) => read.unreadable.push(Unreadable {
                    id,
                    reason: error.to_string(),
                }),
            }
        }
        Ok(read)
    }
}
