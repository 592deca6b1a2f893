//! A database with the order service's tables, beside that of the order service, for measurements of bare SQL.

use anyhow::{Context, ensure};
use endpoints::Service;
use testkit::binaries::Binaries;
use testkit::postgres::database;
use tokio::process::Command;

/// Remove it with [`ScratchDatabase::discard`]. It also ends with a private Postgres.
pub(crate) struct ScratchDatabase {
    order_url: String,
    name: String,
    pub(crate) url: String,
}

impl ScratchDatabase {
    /// Creates it on the server of the order service. One with the same label is dropped first.
    pub(crate) async fn create(order_url: &str, label: &str) -> anyhow::Result<Self> {
        let name = scratch_name(order_url, label)?;
        database::drop_now(order_url, &name).await?;
        database::create(order_url, &name).await?;
        let scratch = Self {
            order_url: order_url.to_owned(),
            url: database::url(order_url, &name)?,
            name,
        };
        match migrate(&scratch.url).await {
            Ok(()) => Ok(scratch),
            Err(error) => {
                scratch.discard().await?;
                Err(error)
            }
        }
    }

    pub(crate) async fn discard(self) -> anyhow::Result<()> {
        database::drop_now(&self.order_url, &self.name).await
    }
}

async fn migrate(database_url: &str) -> anyhow::Result<()> {
    let order = Binaries::locate(None)?.path(Service::Order.name())?;
    let output = Command::new(order)
        .arg("migrate")
        .env("DATABASE_URL", database_url)
        .output()
        .await
        .context("running the order service's migrations")?;
    ensure!(
        output.status.success(),
        "migrating the scratch database failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn scratch_name(order_url: &str, label: &str) -> anyhow::Result<String> {
    let url = reqwest::Url::parse(order_url).context("the order database's URL cannot be read")?;
    let name = url.path().trim_start_matches('/');
    ensure!(
        !name.is_empty(),
        "the order database's URL names no database"
    );
    Ok(format!("{name}_{label}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_name_follows_the_order_database() {
        let name = scratch_name("postgres://me@db:5433/t1-order?sslmode=require", "limit");
        assert_eq!(name.unwrap(), "t1-order_limit");
        scratch_name("postgres://me@db:5433", "limit").unwrap_err();
    }
}
