//! Keys and their stored responses, written together with the charges and refunds they made.

mod columns;

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgConnection;

use crate::domain::api_response::ApiResponse;
use crate::domain::charge::Charge;
use crate::domain::key_use::KeyUse;
use crate::domain::operation::Operation;
use crate::domain::refund::Refund;
use crate::domain::settlement::Settlement;
use crate::store::requests::columns::Columns;

/// One request to record, with its response and its effect.
#[derive(Clone, Debug)]
pub struct NewRequest {
    pub key: Arc<str>,
    pub operation: Operation,
    pub fingerprint: [u8; 32],
    pub response: ApiResponse,
    pub effect: Effect,
    pub created_at: DateTime<Utc>,
}

/// The money that a request moves.
#[derive(Clone, Debug)]
pub enum Effect {
    /// With what becomes of it, if it is pending.
    Charge(Charge, Option<Settlement>),
    Refund(Refund, Option<Settlement>),
    /// A decline, or a stored failure.
    Nothing,
}

/// The result of [`record`] for each key.
pub type RecordedByKey = HashMap<String, Recorded>;

/// The result of recording one [`NewRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The key was free: response and effect are in the books.
    New,
    /// The key already had a response. Nothing was written.
    Found(StoredResponse),
    /// Another process took the key while this statement ran. Nothing was written; retry.
    Contended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// A cancelled key has one response for every charge, regardless of its fingerprint.
    pub is_key_cancelled: bool,
    pub fingerprint: Vec<u8>,
    pub response: ApiResponse,
}

/// The stored response of a key inside its window.
pub async fn find(
    connection: &mut PgConnection,
    key: &str,
    now: DateTime<Utc>,
) -> sqlx::Result<Option<StoredResponse>> {
    let row = sqlx::query!(
        "select operation, fingerprint, status, body
         from requests where key = $1 and expires_at > $2",
        key,
        now,
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| stored(&row.operation, row.fingerprint, row.status, row.body)))
}

/// Claims the keys, moves the money and stores the responses in one statement, and so in one commit:
/// after a crash each request is complete or absent. Keys within a batch must differ.
///
/// The lookup of a stored response is lateral with a limit, so that Postgres plans one probe of the
/// primary key per request. A plain join may be planned as a scan while the table is small, and that
/// plan stays cached while the table grows.
pub async fn record(
    connection: &mut PgConnection,
    requests: &[NewRequest],
    window: TimeDelta,
) -> sqlx::Result<RecordedByKey> {
    let columns = Columns::of(requests, window);
    let rows = sqlx::query_file_as!(
        Row,
        "queries/record_requests.sql",
        &columns.key as _,
        &columns.operation as _,
        &columns.fingerprint as _,
        &columns.status,
        &columns.body as _,
        &columns.created_at,
        &columns.expires_at,
        &columns.charge_id as _,
        &columns.refund_id as _,
        &columns.refunded_id as _,
        &columns.reference as _,
        &columns.amount as _,
        &columns.currency as _,
        &columns.payment_method as _,
        &columns.effect_status as _,
        &columns.outcome as _,
        &columns.failure_code as _,
        &columns.settles_at as _,
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(Row::recorded).collect())
}

struct Row {
    key: String,
    is_new: bool,
    operation: Option<String>,
    fingerprint: Option<Vec<u8>>,
    status: Option<i16>,
    body: Option<String>,
}

impl Row {
    fn recorded(self) -> (String, Recorded) {
        let found = (self.operation, self.fingerprint, self.status, self.body);
        let recorded = match (self.is_new, found) {
            (true, _) => Recorded::New,
            (false, (Some(operation), Some(fingerprint), Some(status), Some(body))) => {
                Recorded::Found(stored(&operation, fingerprint, status, body))
            }
            _ => Recorded::Contended,
        };
        (self.key, recorded)
    }
}

fn stored(operation: &str, fingerprint: Vec<u8>, status: i16, body: String) -> StoredResponse {
    let status = u16::try_from(status).unwrap_or_default();
    StoredResponse {
        is_key_cancelled: operation == KeyUse::Cancellation.as_str(),
        fingerprint,
        response: ApiResponse { status, body },
    }
}
