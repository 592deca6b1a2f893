//! Counts the charges of one order in the provider's own books, not in our services.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::{client, database, provider};
use serde::Deserialize;
use uuid::Uuid;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CAPTURED: &str = "captured";

/// Where to read the provider's books.
pub(super) enum Books {
    /// URL of the provider's database.
    Database(String),
    /// Base URL of the provider's API.
    Api(String),
}

#[derive(Deserialize)]
struct Charges {
    data: Vec<Charge>,
}

#[derive(Deserialize)]
struct Charge {
    status: String,
}

impl Books {
    /// Captured charges of the order.
    pub(super) async fn charges(&self, order: Uuid) -> anyhow::Result<i64> {
        match self {
            Self::Database(url) => {
                let pool = database::connect(url).await?;
                let charges = provider::charges_per_order(&pool, &[order]).await;
                pool.close().await;
                Ok(charges?.get(&order).copied().unwrap_or_default())
            }
            Self::Api(url) => listed(url, order).await,
        }
    }
}

async fn listed(url: &str, order: Uuid) -> anyhow::Result<i64> {
    let url = format!("{}/v1/charges?reference={order}", url.trim_end_matches('/'));
    let response = client::http(REQUEST_TIMEOUT)?.get(&url).send().await;
    let response = response.with_context(|| format!("GET {url}"))?;
    let status = response.status();
    ensure!(status.is_success(), "GET {url} returned {status}");
    let charges: Charges = response.json().await.context("reading the charges")?;
    let captured = charges.data.iter().filter(|it| it.status == CAPTURED);
    Ok(captured.count() as i64)
}
