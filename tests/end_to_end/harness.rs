//! One running system for one test, with the actions and checks that tests share.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::client::{ApiResponse, Client, new_key, order_body};
use endpoints::provider;
use endpoints::{PerService, Service};
use invariants::{self, Databases};
use reqwest::Method;
use serde_json::Value;
use testkit::smtp_sink::{self, Behaviour, behaviour};
use testkit::system::{System, SystemOptions};
use uuid::Uuid;

use crate::shared_systems;

/// Longest time until something that must happen has happened. Long enough for a busy machine: only a failing
/// test waits this long.
pub(crate) const SETTLE_TIMEOUT: Duration = Duration::from_secs(180);
/// The reason in the audit log for what tests change.
pub(crate) const REASON: &str = "end-to-end test";
const POLL: Duration = Duration::from_millis(100);

pub(crate) struct Harness {
    pub(crate) system: System,
    pub(crate) client: Client,
    pub(crate) databases: Databases,
    /// Charges of earlier tests in the provider's ledger.
    pub(crate) charges_before: i64,
    is_shared: bool,
}

/// Leases and timeouts of payment. Shorter ones would expire on a busy machine.
const PAYMENT_ENV: [(&str, &str); 3] = [
    ("LEASE_MS", "2000"),
    ("PSP_TIMEOUT_MS", "1500"),
    ("RETRY_MAX_MS", "1000"),
];
/// A dialogue starts only if it would end before its lease, so the lease leaves time to start one. A time-out
/// is a try more, and tests count tries and mails: no dialogue may time out on a busy machine.
const RECEIPT_ENV: [(&str, &str); 5] = [
    ("LEASE_MS", "8000"),
    ("SMTP_TIMEOUT_MS", "3000"),
    ("SMTP_DATA_TIMEOUT_MS", "3000"),
    ("RETRY_BASE_MS", "100"),
    ("RETRY_MAX_MS", "1000"),
];
/// The messages of a killed consumer wait this long for the next one.
const CONSUMER_ENV: (&str, &str) = ("KAFKA_SESSION_TIMEOUT_MS", "2000");

/// Options with short leases and sessions, so that a test does not wait half a minute for one to
/// expire.
pub(crate) fn options() -> SystemOptions {
    let mut options = SystemOptions::for_test();
    let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    options.env = PerService::from_fn(|service| {
        let own: &[(&str, &str)] = match service {
            Service::Payment => &PAYMENT_ENV,
            Service::Receipt => &RECEIPT_ENV,
            _ => &[],
        };
        let shared = service.uses_kafka().then_some(CONSUMER_ENV);
        own.iter().copied().chain(shared).map(pair).collect()
    });
    options
}

/// Places an order. The client itself gives up earlier than a busy machine recovers from an outage.
pub(crate) async fn place_patiently(
    client: &Client,
    key: &str,
    body: &str,
) -> anyhow::Result<ApiResponse> {
    let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
    loop {
        match client.place(key, body).await {
            Err(_) if tokio::time::Instant::now() < deadline => {}
            placed => return placed,
        }
    }
}

impl Harness {
    /// A system of its own, for a test with other options or one that counts whole tables.
    pub(crate) async fn start(options: SystemOptions) -> anyhow::Result<Self> {
        Self::attach(System::start(options).await?, false).await
    }

    /// A system that earlier tests may have used. It has their orders, all settled.
    pub(crate) async fn shared() -> anyhow::Result<Self> {
        Self::attach(shared_systems::take().await?, true).await
    }

    async fn attach(system: System, is_shared: bool) -> anyhow::Result<Self> {
        let client = Client::new(system.url(Service::Order), "demo-key-acme")?;
        let databases = Databases::connect(&system.endpoints()).await?;
        let charges_before = sqlx::query_scalar("select count(*) from charges")
            .fetch_one(&databases.psp)
            .await?;
        Ok(Self {
            system,
            client,
            databases,
            charges_before,
            is_shared,
        })
    }

    /// Places an order, with retries, and returns its id.
    pub(crate) async fn place(&self) -> anyhow::Result<Uuid> {
        self.place_with(&new_key("e2e"), &order_body(2)).await
    }

    pub(crate) async fn place_with(&self, key: &str, body: &str) -> anyhow::Result<Uuid> {
        let response = place_patiently(&self.client, key, body).await?;
        ensure!(
            response.status == 201,
            "POST /orders returned {}",
            response.summary()
        );
        response.order_id()
    }

    /// Places an order under the given id.
    pub(crate) async fn put(&self, id: Uuid) -> anyhow::Result<()> {
        let url = format!("{}/orders/{id}", self.system.url(Service::Order));
        let put = reqwest::Client::new().put(url).bearer_auth("demo-key-acme");
        let put = put.header("content-type", "application/json");
        let response = put.body(order_body(2)).send().await?;
        ensure!(
            response.status() == 201,
            "PUT /orders returned {}",
            response.status()
        );
        Ok(())
    }

    /// Places an order for an item that is not in stock.
    pub(crate) async fn place_out_of_stock(&self) -> anyhow::Result<Uuid> {
        let body = order_body(1).replace("SKU-99", "SKU-not-in-stock");
        self.place_with(&new_key("no-stock"), &body).await
    }

    pub(crate) async fn place_many(&self, count: usize) -> anyhow::Result<Vec<Uuid>> {
        let places = (0..count).map(|_| self.place());
        futures_util::future::try_join_all(places).await
    }

    /// Sends a cancellation request until the response is final; returns its status.
    pub(crate) async fn cancel(&self, id: Uuid) -> anyhow::Result<u16> {
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            match self.client.cancel(id).await {
                Ok(response) if !response.is_retryable() => return Ok(response.status),
                other => ensure!(
                    tokio::time::Instant::now() < deadline,
                    "no final response to DELETE /orders/{id}: {other:?}"
                ),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until each order has a final status, and returns these.
    pub(crate) async fn ends(&self, orders: &[Uuid]) -> anyhow::Result<Vec<String>> {
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        let mut ends = Vec::with_capacity(orders.len());
        for id in orders {
            ends.push(loop {
                let seen = self.client.order(*id).await.map(|order| order.status);
                match seen {
                    Ok(status) if !["placed", "paid"].contains(&&*status) => break status,
                    seen => ensure!(
                        tokio::time::Instant::now() < deadline,
                        "order {id} has no final status: {seen:?}"
                    ),
                }
                tokio::time::sleep(POLL).await;
            });
        }
        Ok(ends)
    }

    /// Waits for the status, then for everything to be settled.
    pub(crate) async fn expect_end(&self, id: Uuid, status: &str) -> anyhow::Result<()> {
        self.client
            .wait_for_status(id, status, SETTLE_TIMEOUT)
            .await?;
        self.expect_settled().await
    }

    /// Numbers of charges and refunds of an order in the provider's ledger.
    pub(crate) async fn books(&self, id: Uuid) -> anyhow::Result<(i64, i64)> {
        let count = "select (select count(*) from charges where reference = $1),
                            (select count(*) from refunds where reference = $1)";
        let counts = sqlx::query_as(count).bind(id.to_string());
        Ok(counts.fetch_one(&self.databases.psp).await?)
    }

    /// Waits until the provider has charged the order, whether or not payment has recorded it.
    pub(crate) async fn wait_for_charge(&self, id: Uuid) -> anyhow::Result<()> {
        let wait = async {
            while self.books(id).await?.0 == 0 {
                tokio::time::sleep(POLL).await;
            }
            anyhow::Ok(())
        };
        let charged = tokio::time::timeout(SETTLE_TIMEOUT, wait).await;
        charged.with_context(|| format!("order {id} was never charged"))?
    }

    /// Arms a crash point in a running service: it kills the process there.
    pub(crate) async fn arm(&self, service: Service, point: &str) -> anyhow::Result<()> {
        self.arm_to(service, point, "kill").await
    }

    /// Arms a crash point with the action `kill` or `pause`.
    pub(crate) async fn arm_to(
        &self,
        service: Service,
        point: &str,
        action: &str,
    ) -> anyhow::Result<()> {
        let url = format!("{}/admin/crash-points", self.system.operator_url(service));
        let body = serde_json::json!({ "name": point, "action": action });
        let operator = self.system.operator(REASON)?;
        operator
            .send(Method::POST, &url, Some(&body))
            .await
            .context("arming; build the services with the feature crash-points")?;
        Ok(())
    }

    pub(crate) async fn set_fault(&self, fault: provider::Fault) -> anyhow::Result<()> {
        self.system.faults(REASON)?.arm(&fault).await
    }

    pub(crate) async fn clear_faults(&self) -> anyhow::Result<()> {
        self.system.faults(REASON)?.clear().await
    }

    /// Sends an operator's request, and returns the JSON of its response.
    pub(crate) async fn operate(
        &self,
        service: Service,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.system.operator_url(service));
        let operator = self.system.operator(REASON)?;
        operator.call(method, &url, body.as_ref()).await
    }

    /// Changes the behaviour of the mail server.
    pub(crate) fn set_mail_fault(&self, fault: Behaviour) -> anyhow::Result<()> {
        behaviour::set(&self.system.endpoints().mails_dir, fault)
    }

    /// Checks the number of mails of each order in the mail server's directory.
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

    /// Checks that an order has exactly these mails: each subject contains one of the texts.
    pub(crate) fn expect_subjects(&self, order: Uuid, expected: &[&str]) -> anyhow::Result<()> {
        let order = order.to_string();
        let mails = smtp_sink::mails(&self.system.endpoints().mails_dir)?;
        let subjects: Vec<&str> = mails
            .iter()
            .filter(|mail| mail.text.contains(&order))
            .filter_map(|mail| mail.header("subject"))
            .collect();
        let has = |text: &&str| subjects.iter().filter(|it| it.contains(*text)).count() == 1;
        ensure!(
            subjects.len() == expected.len() && expected.iter().all(has),
            "{order} has {subjects:?}, not {expected:?}"
        );
        Ok(())
    }

    /// Waits until this query of a service's database counts so many rows.
    pub(crate) async fn wait_for_count(
        &self,
        service: Service,
        query: &'static str,
        expected: i64,
    ) -> anyhow::Result<()> {
        let pool = match service {
            Service::Order => &self.databases.order,
            Service::Payment => &self.databases.payment,
            Service::Fulfilment => &self.databases.fulfilment,
            Service::Receipt => &self.databases.receipt,
            Service::Psp => &self.databases.psp,
        };
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            let counted: i64 = sqlx::query_scalar(query).fetch_one(pool).await?;
            if counted == expected {
                return Ok(());
            }
            let late = tokio::time::Instant::now() >= deadline;
            ensure!(!late, "{counted} instead of {expected}: {query}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until these orders have shipped and everything is settled, then checks every invariant
    /// and that each order has one charge.
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
        let counts = provider::charges_per_order(&self.databases.psp, orders).await?;
        for (order, charges) in counts {
            ensure!(charges == 1, "count(*) = {charges} for order {order}");
        }
        Ok(())
    }

    /// Waits until every invariant of a settled system holds.
    pub(crate) async fn expect_settled(&self) -> anyhow::Result<()> {
        self.expect_settled_but("nothing").await
    }

    /// The same without the invariant that the test itself has broken.
    pub(crate) async fn expect_settled_but(&self, broken: &str) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            let mut violated = invariants::always(&self.databases).await?;
            violated.retain(|violation| violation.invariant != broken);
            ensure!(violated.is_empty(), "broken: {violated:#?}");
            let mut unsettled = invariants::settled(&self.databases).await?;
            let for_operator = invariants::for_operator(&self.databases).await?;
            let lost = for_operator.into_iter();
            unsettled.extend(lost.filter(|it| it.invariant == invariants::ORDER_LOST));
            unsettled.retain(|violation| violation.invariant != broken);
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

    /// Waits until the crash point has killed the process with signal 9. Without this, a test whose
    /// crash never happened would pass.
    pub(crate) async fn expect_killed(&self, service: Service) -> anyhow::Result<()> {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self
            .system
            .wait_exit(service.name(), SETTLE_TIMEOUT)
            .await
            .context("the process never reached the crash point")?;
        ensure!(status.signal() == Some(9), "{service} ended with {status}");
        Ok(())
    }

    /// Stops the system, or hands it on to the next test if it is shared.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        if !self.is_shared {
            return self.system.stop().await;
        }
        self.expect_settled().await?;
        shared_systems::hand_on(self.system).await
    }
}
