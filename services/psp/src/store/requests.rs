//! Keys and their answers, written together with the charges that they stand for.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgConnection;

use crate::domain::answer::Answer;
use crate::domain::charge::Charge;

/// What is to be remembered of one request, and charged for it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Arc<str>,
    pub fingerprint: [u8; 32],
    pub answer: Answer,
    pub charge: Option<Charge>,
    pub created_at: DateTime<Utc>,
}

/// By key, what became of each entry.
pub type Outcomes = HashMap<String, Recorded>;

/// What became of an [`Entry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The key was free: answer and charge are in the books.
    New,
    /// The key had an answer already. Nothing was written.
    Found(Stored),
    /// Another process took the key while this statement ran. Nothing was written; ask again.
    Contended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub fingerprint: Vec<u8>,
    pub answer: Answer,
}

/// The answer that a key has inside its window.
pub async fn find(
    connection: &mut PgConnection,
    key: &str,
    now: DateTime<Utc>,
) -> sqlx::Result<Option<Stored>> {
    let row = sqlx::query!(
        "select fingerprint, status, body from requests where key = $1 and expires_at > $2",
        key,
        now,
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| stored(row.fingerprint, row.status, row.body)))
}

/// Claims the keys, charges and keeps the answers in one statement and so in one commit: whatever
/// dies, each entry is there as a whole or not at all. Keys within a batch must differ.
///
/// The lookup of an existing answer is lateral with a limit, so that it is planned as one probe of
/// the primary key per entry. A plain join may be planned as a scan while the table is young, and
/// that plan stays cached while the table grows.
pub async fn record(
    connection: &mut PgConnection,
    entries: &[Entry],
    window: TimeDelta,
) -> sqlx::Result<Outcomes> {
    let columns = Columns::of(entries, window);
    let rows = sqlx::query_as!(
        Row,
        r#"
        with entry as (
            select key, fingerprint, status, body, created_at, expires_at,
                   charge_id, reference, amount, currency, payment_method
            from unnest($1::text[], $2::bytea[], $3::smallint[], $4::text[], $5::timestamptz[],
                        $6::timestamptz[], $7::uuid[], $8::text[], $9::bigint[], $10::text[],
                        $11::text[])
                as entry (key, fingerprint, status, body, created_at, expires_at,
                          charge_id, reference, amount, currency, payment_method)
        ), claimed as (
            insert into requests as present
                (key, fingerprint, status, body, charge_id, created_at, expires_at)
            select key, fingerprint, status, body, charge_id, created_at, expires_at
            from entry
            -- Two processes with overlapping batches lock in the same order.
            order by key
            on conflict (key) do update
            set fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body,
                charge_id = excluded.charge_id, created_at = excluded.created_at,
                expires_at = excluded.expires_at
            where present.expires_at <= excluded.created_at
            returning key
        ), charged as (
            insert into charges
                (id, idempotency_key, reference, amount, currency, payment_method, status,
                 created_at)
            select entry.charge_id, entry.key, entry.reference, entry.amount, entry.currency,
                   entry.payment_method, 'captured', entry.created_at
            from entry join claimed on claimed.key = entry.key
            where entry.charge_id is not null
        )
        select entry.key as "key!", claimed.key is not null as "is_new!",
               found.fingerprint as "fingerprint?", found.status as "status?", found.body as "body?"
        from entry
        left join claimed on claimed.key = entry.key
        left join lateral (
            select fingerprint, status, body from requests
            where requests.key = entry.key and claimed.key is null
            limit 1
        ) found on true
        "#,
        &columns.key as _,
        &columns.fingerprint as _,
        &columns.status,
        &columns.body as _,
        &columns.created_at,
        &columns.expires_at,
        &columns.charge_id as _,
        &columns.reference as _,
        &columns.amount as _,
        &columns.currency as _,
        &columns.payment_method as _,
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(Row::outcome).collect())
}

struct Row {
    key: String,
    is_new: bool,
    fingerprint: Option<Vec<u8>>,
    status: Option<i16>,
    body: Option<String>,
}

impl Row {
    fn outcome(self) -> (String, Recorded) {
        let recorded = match (self.is_new, self.fingerprint, self.status, self.body) {
            (true, ..) => Recorded::New,
            (false, Some(fingerprint), Some(status), Some(body)) => {
                Recorded::Found(stored(fingerprint, status, body))
            }
            _ => Recorded::Contended,
        };
        (self.key, recorded)
    }
}

fn stored(fingerprint: Vec<u8>, status: i16, body: String) -> Stored {
    let status = u16::try_from(status).unwrap_or_default();
    Stored {
        fingerprint,
        answer: Answer { status, body },
    }
}

/// Entries turned on their side: one array per column is one parameter, whatever the batch's size,
/// so one prepared statement serves all.
#[derive(Default)]
struct Columns<'a> {
    key: Vec<&'a str>,
    fingerprint: Vec<&'a [u8]>,
    status: Vec<i16>,
    body: Vec<&'a str>,
    created_at: Vec<DateTime<Utc>>,
    expires_at: Vec<DateTime<Utc>>,
    charge_id: Vec<Option<uuid::Uuid>>,
    reference: Vec<Option<&'a str>>,
    amount: Vec<Option<i64>>,
    currency: Vec<Option<&'a str>>,
    payment_method: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(entries: &'a [Entry], window: TimeDelta) -> Self {
        let mut columns = Self::default();
        for entry in entries {
            let charge = entry.charge.as_ref();
            columns.key.push(&entry.key);
            columns.fingerprint.push(&entry.fingerprint);
            columns
                .status
                .push(i16::try_from(entry.answer.status).unwrap_or(i16::MAX));
            columns.body.push(&entry.answer.body);
            columns.created_at.push(entry.created_at);
            columns.expires_at.push(entry.created_at + window);
            columns.charge_id.push(charge.map(|charge| charge.id));
            columns
                .reference
                .push(charge.map(|charge| charge.reference.as_str()));
            columns.amount.push(charge.map(|charge| charge.amount));
            columns
                .currency
                .push(charge.map(|charge| charge.currency.as_str()));
            columns
                .payment_method
                .push(charge.map(|charge| charge.payment_method.as_str()));
        }
        columns
    }
}
