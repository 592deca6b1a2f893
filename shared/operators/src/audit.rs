//! The table `audit_log`: one row for each change that an operator made.
//!
//! A row commits in the transaction of its change. A change outside the database, such as an armed crash
//! point, happens after its row is committed: a row may then describe a change that a crash prevented,
//! but no change is without a row.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::{PgConnection, PgPool};

use crate::Operator;

/// A row of the log.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub id: i64,
    pub at: DateTime<Utc>,
    pub operator: String,
    pub action: String,
    pub subject: String,
    pub reason: String,
    pub detail: Value,
    pub correlation_id: String,
}

/// Adds a row in the caller's transaction, which must also make the change. `action` is what was done,
/// `subject` what it was done to.
pub async fn record(
    connection: &mut PgConnection,
    operator: &Operator,
    action: &'static str,
    subject: &str,
    detail: &Value,
) -> sqlx::Result<()> {
    let correlation_id = telemetry::Context::current().correlation_id;
    let (subject, detail) = (&storable(subject), &storable_json(detail));
    sqlx::query!(
        "insert into audit_log (operator, action, subject, reason, detail, correlation_id)
         values ($1, $2, $3, $4, $5, $6)",
        operator.name(),
        action,
        subject,
        operator.reason(),
        detail,
        &*correlation_id
    )
    .execute(connection)
    .await?;
    operator.account();
    let (operator, reason) = (operator.name(), operator.reason());
    tracing::info!(operator, action, subject, reason, %correlation_id, "operator change");
    Ok(())
}

/// Postgres stores no NUL characters. The cause of a failed message may have one, and its redrive must
/// not fail because of that.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn storable_json(value: &Value) -> Value {
    match value {
        Value::String(text) => storable(text).into(),
        Value::Array(items) => items.iter().map(storable_json).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| (storable(name), storable_json(value)));
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

/// Adds a row and commits it, for a change outside the database. Make the change afterwards.
pub async fn record_first(
    pool: &PgPool,
    operator: &Operator,
    action: &'static str,
    subject: &str,
    detail: &Value,
) -> Result<(), database::Error> {
    database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(pool).await?;
        record(&mut connection, operator, action, subject, detail).await
    })
    .await
}

/// The newest rows with ids below `before`, newest first.
pub(crate) async fn page(
    connection: &mut PgConnection,
    before: i64,
    rows_max: i64,
) -> sqlx::Result<Vec<Entry>> {
    sqlx::query_as!(
        Entry,
        "select id, at, operator, action, subject, reason, detail, correlation_id
         from audit_log where id < $1 order by id desc limit $2",
        before,
        rows_max
    )
    .fetch_all(connection)
    .await
}
