//! This service's part of an order's timeline.

use chrono::{DateTime, TimeDelta, Utc};
use events::EventType;
use idempotency::timeline::{self as keys, KeyRecord};
use operators::{PartQuery, ReadPart};
use sqlx::PgConnection;
use steps::{Part, ROWS_MAX, Step};

use crate::store::timeline::{self as store, ItemRow, OrderRow};

/// Reads the steps of one order.
#[derive(Clone)]
pub struct Reader {
    pub group: String,
    pub key_window_seconds: u64,
}

impl ReadPart for Reader {
    async fn read(&self, connection: &mut PgConnection, query: &PartQuery) -> sqlx::Result<Part> {
        let mut part = Part::new("order", query.order_id);
        let Some(order) = store::order(connection, query.order_id).await? else {
            return Ok(part);
        };
        let items = store::items(connection, query.order_id, ROWS_MAX).await?;
        part.note_limit("order_items", items.len());
        part.status = Some(order.status.clone());
        part.reference.clone_from(&order.reference);
        part.placed_at = Some(order.created_at);
        part.status_at = Some(order.updated_at);
        part.steps.push(placed(&order, &items));
        part.steps.extend(cancellation(&order));
        part.steps.extend(status(&order));
        outbox::add_steps(connection, &mut part).await?;
        inbox::add_steps(connection, &self.group, order.attempt, &mut part).await?;
        self.add_keys(connection, &order, &mut part).await?;
        Ok(part)
    }
}

impl Reader {
    /// The key of the request that placed the order, and those of requests that paid it again.
    async fn add_keys(
        &self,
        connection: &mut PgConnection,
        order: &OrderRow,
        part: &mut Part,
    ) -> sqlx::Result<()> {
        let Some(expires_at) = self.expiry(order.created_at) else {
            return Ok(());
        };
        for record in keys::expiring_at(connection, part.order_id, expires_at).await? {
            part.key = Some(record.key.clone());
            part.fingerprint = Some(record.fingerprint_text());
            part.steps.push(key(&record));
        }
        for requested_at in payment_requests(part) {
            let Some(expires_at) = self.expiry(requested_at) else {
                continue;
            };
            // The event is written after the transaction began, which is the key's time.
            let found = keys::expiring_before(connection, part.order_id, expires_at).await?;
            let is_new = |record: &KeyRecord| part.key.as_ref() != Some(&record.key);
            let found = found.filter(is_new).map(|record| key(&record));
            part.steps.extend(found);
        }
        Ok(())
    }

    fn expiry(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let seconds = i64::try_from(self.key_window_seconds).ok()?;
        at.checked_add_signed(TimeDelta::try_seconds(seconds)?)
    }
}

/// When the customer paid again, as the outbox shows it.
fn payment_requests(part: &Part) -> Vec<DateTime<Utc>> {
    let requested = EventType::OrderPaymentRequested.as_str();
    let events = part.steps.iter().filter(|step| {
        let event = step.event.as_ref();
        step.table.as_deref() == Some("outbox")
            && event.is_some_and(|event| event.event_type == requested)
    });
    events.map(|step| step.at).collect()
}

/// Items are never updated, so they still name the transaction that placed the order.
fn placed(order: &OrderRow, items: &[ItemRow]) -> Step {
    let lines = items.iter().map(|item| {
        let (quantity, price) = (item.quantity, item.unit_price);
        format!("{quantity} × {} at {price}", item.sku)
    });
    let lines: Vec<String> = lines.collect();
    let is_first = order.attempt == 1;
    Step::new(order.created_at, "orders", "order placed")
        .commit(items.first().map(|item| item.commit.clone()))
        .fact("amount", format!("{} {}", order.amount, order.currency))
        .fact("items", lines.join(", "))
        .fact("principal", &order.principal_id)
        .fact_if("reference", order.reference.as_ref())
        // A later attempt may have another method.
        .fact_if("payment method", is_first.then_some(&order.payment_method))
}

fn cancellation(order: &OrderRow) -> Option<Step> {
    let at = order.cancel_requested_at?;
    let is_last = at == order.updated_at;
    let step = Step::new(at, "orders", "cancellation requested");
    Some(step.commit(is_last.then(|| order.commit.clone())))
}

/// The order's last change. The table does not keep earlier ones; only messages and events show them.
fn status(order: &OrderRow) -> Option<Step> {
    let is_changed = order.version > 1;
    is_changed.then(|| {
        let what = format!("order is {}", order.status);
        Step::new(order.updated_at, "orders", what)
            .commit(Some(order.commit.clone()))
            .fact("version", order.version)
            .fact("attempt", order.attempt)
            .fact("payment method", &order.payment_method)
            .fact_if("reopened", (order.reopened > 0).then_some(order.reopened))
    })
}

fn key(record: &KeyRecord) -> Step {
    let what = format!("key stored with its response to {}", record.route);
    Step::new(record.created_at, "idempotency_keys", what)
        .commit(Some(record.commit.clone()))
        .fact("key", &record.key)
        .fact("fingerprint", record.fingerprint_text())
        .fact_if("response", record.response_status)
        .fact("expires at", record.expires_at)
}
