//! What the previous release leaves in the tables: finished orders, and orders that wait at each service.

use anyhow::ensure;
use endpoints::Service;
use endpoints::client::order_body;
use reqwest::Method;
use serde_json::json;
use testkit::broker;
use testkit::smtp_sink::{self, Action, Behaviour};
use uuid::Uuid;

use super::replicas::{Answered, Replicas, Request};
use crate::harness::{Harness, SETTLE_TIMEOUT};

/// Orders that stop at each place.
const ORDERS: usize = 8;

/// The mail server and the provider are down and the broker is paused when [`OldRows::create`] ends.
pub(super) struct OldRows {
    /// Every request so far.
    pub(super) answered: Vec<Answered>,
    /// Orders that have shipped or will, with one receipt each.
    pub(super) orders: Vec<Uuid>,
    pub(super) paid_again: Uuid,
    pub(super) refunded: Uuid,
    pub(super) with_reference: Answered,
    /// An operator had its mail sent again.
    pub(super) mail_resolved: Uuid,
    /// The mail server rejected its mail.
    pub(super) mail_failed: Uuid,
}

impl OldRows {
    pub(super) async fn create(harness: &Harness, replicas: &Replicas) -> anyhow::Result<Self> {
        let mut old = Self::settled(harness, replicas).await?;
        harness.system.stop_service(smtp_sink::PROCESS_NAME).await?;
        old.place(replicas).await?;
        for order in &old.orders {
            let client = &harness.client;
            client
                .wait_for_status(*order, "shipped", SETTLE_TIMEOUT)
                .await?;
        }
        let unsent = "select count(*) from receipts where status = 'pending'";
        harness
            .wait_for_count(Service::Receipt, unsent, ORDERS as i64)
            .await?;

        harness.system.stop_service(Service::Psp.name()).await?;
        old.place(replicas).await?;
        let open = "select count(*) from payments where status = 'unknown' and tries > 1";
        harness
            .wait_for_count(Service::Payment, open, ORDERS as i64)
            .await?;

        harness.system.pause(broker::PROCESS_NAME)?;
        old.place(replicas).await?;
        let unpublished = "select count(*) from outbox where published_at is null";
        harness
            .wait_for_count(Service::Order, unpublished, ORDERS as i64)
            .await?;
        Ok(old)
    }

    async fn settled(harness: &Harness, replicas: &Replicas) -> anyhow::Result<Self> {
        let paying = |method| order_body(1).replace("pm_card_ok", method);
        let with_reference = format!(r#"{{"reference":"cart-1",{}"#, &order_body(1)[1..]);
        let declined = replicas.place(paying("pm_card_declined")).await?;
        let missing = order_body(1).replace("SKU-99", "SKU-not-in-stock");
        let missing = replicas.place(missing).await?;
        let answered = replicas.place_many(ORDERS).await?;
        let with_reference = replicas.place(with_reference).await?;
        let orders = [ids(&answered)?, vec![with_reference.order_id()?]].concat();
        let mut old = Self {
            orders,
            paid_again: declined.order_id()?,
            refunded: missing.order_id()?,
            with_reference,
            mail_resolved: Uuid::nil(),
            mail_failed: Uuid::nil(),
            answered,
        };
        old.answered.extend([declined, missing]);
        let direct = Request::Direct { amount: 5_000 };
        old.answered.push(replicas.answer(direct).await?);
        let order = old.paid_again;
        harness
            .client
            .wait_for_status(order, "declined", SETTLE_TIMEOUT)
            .await?;
        let again = Request::PayAgain { order };
        old.answered.push(replicas.answer(again).await?);
        harness.expect_shipped_once(&old.orders).await?;
        harness.expect_end(old.refunded, "refunded").await?;
        harness.expect_shipped_once(&[order]).await?;

        old.mail_resolved = old.place_with_failed_mail(harness, replicas).await?;
        resolve_mail(harness, old.mail_resolved).await?;
        harness.expect_settled().await?;
        old.mail_failed = old.place_with_failed_mail(harness, replicas).await?;
        Ok(old)
    }

    async fn place(&mut self, replicas: &Replicas) -> anyhow::Result<()> {
        let placed = replicas.place_many(ORDERS).await?;
        self.orders.extend(ids(&placed)?);
        self.answered.extend(placed);
        Ok(())
    }

    /// An order whose mail the mail server rejects.
    async fn place_with_failed_mail(
        &mut self,
        harness: &Harness,
        replicas: &Replicas,
    ) -> anyhow::Result<Uuid> {
        let action = Action::RejectContent(550);
        harness.set_mail_fault(Behaviour { action, times: 1 })?;
        let placed = replicas.place(order_body(1)).await?;
        let order = placed.order_id()?;
        self.orders.push(order);
        self.answered.push(placed);
        harness.expect_shipped_once(&[order]).await?;
        harness.expect_mails(&[order], 0..=0)?;
        Ok(order)
    }
}

pub(super) fn ids(answered: &[Answered]) -> anyhow::Result<Vec<Uuid>> {
    answered.iter().map(Answered::order_id).collect()
}

/// An operator has the mail of an order sent again. A repetition of the decision changes nothing.
pub(super) async fn resolve_mail(harness: &Harness, order: Uuid) -> anyhow::Result<()> {
    let event: Uuid = sqlx::query_scalar("select event_id from receipts where order_id = $1")
        .bind(order)
        .fetch_one(&harness.databases.receipt)
        .await?;
    let decision = json!({"event_id": event, "mail_type": "receipt", "tries": 1, "action": "send"});
    let path = "/admin/mails/resolve";
    let mail = harness.operate(Service::Receipt, Method::POST, path, Some(decision));
    let mail = mail.await?;
    ensure!(mail["order_id"] == order.to_string(), "{mail}");
    Ok(())
}
