//! One running system for one test, and the questions that every test asks of it.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lab::client::{Client, new_key, order_body, psp};
use lab::invariants::{self, Databases};
use lab::service::Service;
use lab::smtp_sink::{self, Behaviour, behaviour};
use lab::system::{System, SystemOptions};
use uuid::Uuid;

/// Longest time from the last fault to everything being settled.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

pub(crate) struct World {
    pub(crate) system: System,
    pub(crate) client: Client,
    pub(crate) databases: Databases,
}

/// Leases short enough that a test need not wait half a minute for one to run out.
pub(crate) fn options() -> SystemOptions {
    let mut options = SystemOptions::for_test();
    for (name, value) in [
        ("LEASE_MS", "2000"),
        ("PSP_TIMEOUT_MS", "1500"),
        ("RETRY_MAX_MS", "1000"),
    ] {
        options
            .env
            .payment
            .push((name.to_owned(), value.to_owned()));
    }
    for (name, value) in [
        ("LEASE_MS", "2000"),
        ("SMTP_TIMEOUT_MS", "900"),
        ("SMTP_DATA_TIMEOUT_MS", "900"),
        ("RETRY_BASE_MS", "100"),
        ("RETRY_MAX_MS", "1000"),
    ] {
        options
            .env
            .receipt
            .push((name.to_owned(), value.to_owned()));
    }
    options
}

impl World {
    pub(crate) async fn start(options: SystemOptions) -> anyhow::Result<Self> {
        let system = System::start(options).await?;
        let client = Client::new(system.url(Service::Order), "demo-key-acme")?;
        let databases = Databases::connect(&system.endpoints()).await?;
        Ok(Self {
            system,
            client,
            databases,
        })
    }

    /// Places an order as a patient client does, and returns its id.
    pub(crate) async fn place(&self) -> anyhow::Result<Uuid> {
        self.place_with(&new_key("e2e"), &order_body(2)).await
    }

    pub(crate) async fn place_with(&self, key: &str, body: &str) -> anyhow::Result<Uuid> {
        let answer = self.client.place(key, body).await?;
        ensure!(
            answer.status == 201,
            "placing answered {}",
            answer.summary()
        );
        answer.order_id()
    }

    pub(crate) async fn place_many(&self, count: usize) -> anyhow::Result<Vec<Uuid>> {
        let places = (0..count).map(|_| self.place());
        futures_util::future::try_join_all(places).await
    }

    /// Arms a crash point in a running service.
    pub(crate) async fn arm(&self, service: Service, point: &str) -> anyhow::Result<()> {
        let url = format!("{}/admin/crash-points", self.system.url(service));
        let body = serde_json::json!({ "name": point });
        let answer = reqwest::Client::new().post(url).json(&body).send().await?;
        let status = answer.status();
        ensure!(
            status.is_success(),
            "arming answered {status}: built without crash-points?"
        );
        Ok(())
    }

    pub(crate) async fn set_fault(&self, fault: psp::Fault) -> anyhow::Result<()> {
        psp::set_fault(self.system.url(Service::Psp), &fault).await
    }

    /// The mail server misbehaves from now on.
    pub(crate) fn set_mail_fault(&self, fault: Behaviour) -> anyhow::Result<()> {
        behaviour::set(&self.system.endpoints().mails_dir, fault)
    }

    /// Each of these orders has so many mails in the mail server's own directory.
    pub(crate) fn expect_mails(
        &self,
        orders: &[Uuid],
        count: RangeInclusive<usize>,
    ) -> anyhow::Result<()> {
        let mails = smtp_sink::mails(&self.system.endpoints().mails_dir)?;
        for order in orders {
            let order = order.to_string();
            let arrived = mails.iter().filter(|mail| mail.text.contains(&order));
            let arrived = arrived.count();
            ensure!(count.contains(&arrived), "{order} has {arrived} mails");
        }
        Ok(())
    }

    /// Waits until these orders have shipped and all is quiet, then holds the system to every
    /// invariant and to one charge for each of them.
    pub(crate) async fn expect_shipped_once(&self, orders: &[Uuid]) -> anyhow::Result<()> {
        ensure!(
            !orders.is_empty(),
            "no order was accepted: this would prove nothing"
        );
        for id in orders {
            self.client
                .wait_for_status(*id, "shipped", SETTLE_TIMEOUT)
                .await?;
        }
        self.expect_settled().await?;
        let counts = psp::charges_per_order(&self.databases.psp, orders).await?;
        for (order, charges) in counts {
            ensure!(charges == 1, "count(*) = {charges} for order {order}");
        }
        Ok(())
    }

    /// Waits until every invariant of a settled system holds.
    pub(crate) async fn expect_settled(&self) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            let broken = invariants::always(&self.databases).await?;
            ensure!(broken.is_empty(), "broken: {broken:#?}");
            let unsettled = invariants::settled(&self.databases).await?;
            if unsettled.is_empty() {
                return Ok(());
            }
            ensure!(
                tokio::time::Instant::now() < deadline,
                "not settled: {unsettled:#?}"
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// A crash that did not happen proves nothing: waits for the process to be killed by signal 9.
    pub(crate) async fn expect_killed(&self, service: Service) -> anyhow::Result<()> {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self
            .system
            .wait_exit(service.name(), SETTLE_TIMEOUT)
            .await
            .context("the crash point never fired")?;
        ensure!(status.signal() == Some(9), "{service} ended with {status}");
        Ok(())
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.system.stop().await
    }
}
