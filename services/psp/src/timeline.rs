//! The provider's part of an order's timeline. The order id is the caller's reference here.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use operators::{PartQuery, ReadPart};
use sqlx::PgConnection;
use steps::{Part, ROWS_MAX, Severity, Step};
use uuid::Uuid;

use crate::domain::{charge, refund};
use crate::store::timeline::{self as store, ChargeRow, RefundRow, RequestRow};

/// Reads the steps of one order.
#[derive(Clone)]
pub struct Reader;

impl ReadPart for Reader {
    async fn read(&self, connection: &mut PgConnection, query: &PartQuery) -> sqlx::Result<Part> {
        let mut part = Part::new("psp", query.order_id);
        let reference = query.order_id.to_string();
        let mut charges = store::charges_by_reference(connection, &reference, ROWS_MAX).await?;
        let known: BTreeSet<Uuid> = charges.iter().map(|row| row.id).collect();
        // A direct charge has another reference: its key finds it.
        let by_key = store::charges_by_keys(connection, &query.keys, ROWS_MAX).await?;
        charges.extend(by_key.into_iter().filter(|row| !known.contains(&row.id)));
        part.note_limit("charges", charges.len());
        let ids: Vec<Uuid> = charges.iter().map(|row| row.id).collect();
        let refunds = store::refunds(connection, &ids, ROWS_MAX).await?;
        part.note_limit("refunds", refunds.len());
        let keys = query.keys.iter();
        let keys = keys.chain(charges.iter().map(|row| &row.idempotency_key));
        let keys = keys.chain(refunds.iter().map(|row| &row.idempotency_key));
        let keys: BTreeSet<String> = keys.cloned().collect();
        let keys: Vec<String> = keys.into_iter().collect();
        let requests = store::requests(connection, &keys, ROWS_MAX).await?;
        part.note_limit("requests", requests.len());
        let captured = charge::Status::Captured.as_str();
        let refunded = refund::Status::Refunded.as_str();
        part.charges = Some(count(charges.iter().filter(|row| row.status == captured)));
        part.refunds = Some(count(refunds.iter().filter(|row| row.status == refunded)));
        part.steps.extend(requests.iter().map(request));
        part.steps.extend(charges.iter().flat_map(charge_steps));
        part.steps.extend(refunds.iter().flat_map(refund_steps));
        Ok(part)
    }
}

fn count<T>(rows: impl Iterator<Item = T>) -> u32 {
    // At most twice the limit of rows.
    rows.count() as u32
}

/// A row is overwritten only when its key is used again after its window.
fn request(row: &RequestRow) -> Step {
    let what = format!("response {} to {} stored", row.status, row.operation);
    Step::new(row.created_at, "requests", what)
        .commit(Some(row.commit.clone()))
        .fact("provider key", &row.key)
        .fact_if("charge", row.charge_id)
        .fact("key expires at", row.expires_at)
}

fn charge_steps(row: &ChargeRow) -> Vec<Step> {
    let money = MoneyRow {
        table: "charges",
        name: "charge",
        status: &row.status,
        is_money: row.status == charge::Status::Captured.as_str(),
        is_pending: row.status == charge::Status::Pending.as_str(),
        settles_at: row.settles_at,
        created_at: row.created_at,
        commit: &row.commit,
    };
    let failed = row.status == charge::Status::Failed.as_str();
    let facts = |step: Step| {
        step.fact("charge", row.id)
            .fact("provider key", &row.idempotency_key)
            .fact("amount", format!("{} {}", row.amount, row.currency))
            .fact("payment method", &row.payment_method)
            .fact_if("failure code", row.failure_code.as_ref().filter(|_| failed))
    };
    money.steps().into_iter().map(facts).collect()
}

fn refund_steps(row: &RefundRow) -> Vec<Step> {
    let money = MoneyRow {
        table: "refunds",
        name: "refund",
        status: &row.status,
        is_money: row.status == refund::Status::Refunded.as_str(),
        is_pending: row.status == refund::Status::Pending.as_str(),
        settles_at: row.settles_at,
        created_at: row.created_at,
        commit: &row.commit,
    };
    let failed = row.status == refund::Status::Failed.as_str();
    let facts = |step: Step| {
        step.fact("refund", row.id)
            .fact("charge", row.charge_id)
            .fact("provider key", &row.idempotency_key)
            .fact("amount", format!("{} {}", row.amount, row.currency))
            .fact_if("failure code", row.failure_code.as_ref().filter(|_| failed))
    };
    money.steps().into_iter().map(facts).collect()
}

/// A charge or a refund, which may get its final status later.
struct MoneyRow<'a> {
    table: &'a str,
    name: &'a str,
    status: &'a str,
    is_money: bool,
    is_pending: bool,
    settles_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    commit: &'a str,
}

impl MoneyRow<'_> {
    fn steps(&self) -> Vec<Step> {
        let Self { table, name, .. } = *self;
        let last = |at| {
            let severity = match (self.is_money, self.is_pending) {
                (true, _) => Severity::Money,
                (false, true) => Severity::Normal,
                (false, false) => Severity::Fault,
            };
            Step::new(at, table, format!("{name} is {}", self.status))
                .severity(severity)
                .commit(Some(self.commit.to_owned()))
        };
        match self.settles_at {
            // The row has changed since: its transaction is the one that settled it.
            Some(at) if !self.is_pending => vec![
                Step::new(self.created_at, table, format!("{name} accepted, pending")),
                last(at).fact("settled", "at its due time or shortly after"),
            ],
            _ => vec![last(self.created_at)],
        }
    }
}
