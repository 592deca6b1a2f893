//! This service's part of an order's timeline.

mod attempt;
mod refund;

use chrono::{DateTime, Utc};
use events::EventType;
use idempotency::timeline as keys;
use operators::{PartQuery, ReadPart};
use sqlx::PgConnection;
use steps::{Part, ROWS_MAX, Severity, Step};

use crate::domain::direct::DIRECT_ROUTE;
use crate::domain::provider_key::charge_key;
use crate::store::timeline::{self as store, AttemptRow};

/// Reads the steps of one order, or of one direct charge.
#[derive(Clone)]
pub struct Reader {
    pub group: String,
}

impl ReadPart for Reader {
    async fn read(&self, connection: &mut PgConnection, query: &PartQuery) -> sqlx::Result<Part> {
        let mut part = Part::new("payment", query.order_id);
        let attempts = store::attempts(connection, query.order_id, ROWS_MAX).await?;
        part.note_limit("payments", attempts.len());
        let refunds = store::refunds(connection, query.order_id, ROWS_MAX).await?;
        part.note_limit("refunds", refunds.len());
        let last = attempts.last();
        part.status = last.map(|row| row.status.clone());
        let latest = last.map_or(1, |row| row.attempt);
        outbox::add_steps(connection, &mut part).await?;
        inbox::add_steps(connection, &self.group, latest, &mut part).await?;
        for row in &attempts {
            let stored_by = stored_by(&part, row);
            let key = charge_key(query.order_id, row.attempt);
            part.steps.extend(attempt::steps(row, &key, stored_by));
            part.provider_keys.push(key);
            add_direct_key(connection, row, &mut part).await?;
        }
        for row in &refunds {
            part.steps.extend(refund::steps(row));
            part.provider_keys.push(row.key.clone());
        }
        Ok(part)
    }
}

/// The transaction that stored the attempt: the one that processed its message. Both rows have the time
/// at which their transaction began.
fn stored_by(part: &Part, row: &AttemptRow) -> Option<String> {
    let opens = [EventType::OrderPlaced, EventType::OrderPaymentRequested];
    let opens = opens.map(EventType::as_str);
    let attempt = row.attempt.to_string();
    let step = part.steps.iter().find(|step| {
        let event = step.event.as_ref();
        step.table.as_deref() == Some("processed_messages")
            && step.at == row.created_at
            && step.facts.get("attempt") == Some(&attempt)
            && event.is_some_and(|event| opens.contains(&event.event_type.as_str()))
    });
    step.and_then(|step| step.commit.clone())
}

/// The client's key of a direct charge.
async fn add_direct_key(
    connection: &mut PgConnection,
    row: &AttemptRow,
    part: &mut Part,
) -> sqlx::Result<()> {
    let Some((principal, key)) = row.principal_id.as_ref().zip(row.request_key.as_ref()) else {
        return Ok(());
    };
    part.reference.clone_from(&row.reference);
    let Some(record) = keys::of_key(connection, principal, DIRECT_ROUTE, key).await? else {
        return Ok(());
    };
    let fingerprint = record.fingerprint_text();
    let step = Step::new(record.created_at, "idempotency_keys", "key claimed")
        .fact("key", key)
        .fact("fingerprint", &fingerprint)
        .fact_if("response", record.response_status)
        .fact("expires at", record.expires_at);
    // The commit that settles the attempt changes the row again.
    let is_open = record.response_status.is_none();
    part.steps
        .push(step.commit(is_open.then_some(record.commit)));
    part.key = Some(key.clone());
    part.fingerprint = Some(fingerprint);
    Ok(())
}

/// The last time that a charger sent the key. Of earlier tries the table keeps only their number.
fn sent(table: &str, name: &str, try_: Try<'_>) -> Option<Step> {
    let at = try_.sent_at?;
    let (what, severity) = match try_.tries {
        ..=1 => (format!("{name}: key sent"), Severity::Normal),
        _ => (format!("{name}: key sent again"), Severity::Fault),
    };
    let step = Step::new(at, table, what).severity(severity);
    let step = step.fact("provider key", try_.key);
    Some(step.fact("tries", try_.tries))
}

/// The last try of an attempt or a refund.
struct Try<'a> {
    key: &'a str,
    tries: i32,
    sent_at: Option<DateTime<Utc>>,
}
