//! A running system with its console, and a browser that shows the page.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use console::{Console, Controls, Listeners, Options};
use endpoints::Service;
use invariants::Databases;
use testkit::system::{System, SystemOptions};
use uuid::Uuid;

use super::driver::Browser;

pub(crate) struct Stage {
    pub(crate) system: Arc<System>,
    pub(crate) console: Console,
    pub(crate) databases: Databases,
    pub(crate) browser: Browser,
}

impl Stage {
    /// Starts everything. The page is not open yet.
    pub(crate) async fn start(mut options: SystemOptions) -> anyhow::Result<Self> {
        let listeners = Listeners::bind(([127, 0, 0, 1], 0).into()).await?;
        let traced = console::trace_env(&listeners.spans_url()?);
        for service in Service::ALL {
            options.env.get_mut(service).extend(traced.iter().cloned());
        }
        let system = Arc::new(System::start(options).await?);
        let console = Console::start(
            listeners,
            Options {
                endpoints: system.endpoints(),
                controls: Controls::Processes(Arc::clone(&system)),
                token: console::token_or_random(None)?,
                jaeger_url: None,
                hosts: Vec::new(),
                forward_spans_to: None,
            },
        )?;
        Ok(Self {
            databases: Databases::connect(&system.endpoints()).await?,
            browser: Browser::start().await?,
            system,
            console,
        })
    }

    /// Opens the page with the token, and waits for the first state.
    pub(crate) async fn open(&self) -> anyhow::Result<()> {
        self.browser.open(&self.console.link()).await?;
        self.browser.wait_for_text("#connection", "Live").await?;
        self.browser
            .wait_for("document.querySelector('#place-method').length")
            .await?;
        Ok(())
    }

    /// The base URL of the page, without the token.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.console.address())
    }

    /// Places an order with a button of the page, and returns the order's id once it has shipped.
    pub(crate) async fn place_and_ship(&self, mode: &str) -> anyhow::Result<Uuid> {
        let browser = &self.browser;
        browser
            .run("document.querySelector('#place-summary').textContent = ''")
            .await?;
        browser.click(&format!("[data-mode={mode}]")).await?;
        let link = "document.querySelector('#place-summary a')?.getAttribute('href')";
        let link = browser.wait_for(link).await?;
        let link = link.as_str().unwrap_or_default();
        let id = link
            .strip_prefix("#order=")
            .context("no link to the order")?;
        self.wait_for_row(id, "shipped", 1).await?;
        Ok(id.parse()?)
    }

    /// Waits until the list of orders shows this order with this status and so many charges.
    pub(crate) async fn wait_for_row(
        &self,
        id: &str,
        status: &str,
        charges: u32,
    ) -> anyhow::Result<()> {
        let row = format!("document.querySelector('#orders tr[data-key=\"{id}\"]')");
        let shows = format!(
            "{row}?.querySelector('.order-status').textContent === '{status}' \
             && {row}.querySelector('.charges').textContent === '{charges}'"
        );
        self.browser.wait_for(&shows).await?;
        Ok(())
    }

    /// Charges of an order in the provider's own database.
    pub(crate) async fn charges(&self, id: Uuid) -> anyhow::Result<i64> {
        let count = "select count(*) from charges where reference = $1";
        let count = sqlx::query_scalar(count).bind(id.to_string());
        Ok(count.fetch_one(&self.databases.psp).await?)
    }

    /// What our services never do: a second charge for the order, straight in the provider's books.
    pub(crate) async fn charge_again(&self, order: Uuid) -> anyhow::Result<Uuid> {
        let id = Uuid::now_v7();
        let insert = "insert into charges (id, idempotency_key, reference, amount, currency, payment_method, status, created_at)
                      select $1, 'by-hand', reference, amount, currency, payment_method, status, now()
                      from charges where reference = $2";
        let insert = sqlx::query(insert).bind(id).bind(order.to_string());
        let rows = insert.execute(&self.databases.psp).await?.rows_affected();
        ensure!(rows == 1, "order {order} had {rows} charges");
        Ok(id)
    }

    /// Gives a charge back, straight in the provider's books.
    pub(crate) async fn refund(&self, charge: Uuid) -> anyhow::Result<()> {
        let insert = "insert into refunds (id, charge_id, idempotency_key, reference, amount, currency, status, created_at)
                      select $1, id, 'by-hand-back', reference, amount, currency, 'refunded', now()
                      from charges where id = $2";
        let insert = sqlx::query(insert).bind(Uuid::now_v7()).bind(charge);
        ensure!(insert.execute(&self.databases.psp).await?.rows_affected() == 1);
        Ok(())
    }

    /// Ends everything, also after a failed test, whose result it returns.
    pub(crate) async fn end(self, result: anyhow::Result<()>) -> anyhow::Result<()> {
        let result = match result {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.picture().await)),
        };
        let closed = self.browser.close().await;
        self.console.stop().await;
        drop(self.databases);
        let system = Arc::into_inner(self.system).context("the system is still in use")?;
        let stopped = system.stop().await;
        result.and(closed).and(stopped)
    }

    /// A picture of the page as it is now, for the message of a failed test.
    async fn picture(&self) -> String {
        let path = std::env::temp_dir().join(format!("console-{}.png", Uuid::new_v4()));
        let taken = self.browser.screenshot().await;
        match taken.map(|picture| std::fs::write(&path, picture)) {
            Ok(Ok(())) => format!("the page looked like {}", path.display()),
            _ => "the page could not be photographed".to_owned(),
        }
    }
}
