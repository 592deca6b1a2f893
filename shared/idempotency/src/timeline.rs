//! The idempotency keys of one resource, for operators.
//!
//! No index finds keys by resource, because every request would pay for it. A key expires a fixed time
//! after its transaction, and the resource's own row has the time of that transaction: so the index over
//! `expires_at` finds the key.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

/// Keys examined to find one whose time is only roughly known.
const EXAMINED_MAX: i64 = 100;
/// Keys of one transaction: of a whole batch at most.
const ROWS_MAX: i64 = 10;

/// A stored key as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    pub route: String,
    pub key: String,
    pub fingerprint: Vec<u8>,
    pub response_status: Option<i16>,
    pub created_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    /// The transaction that last changed the row.
    pub commit: String,
}

impl KeyRecord {
    /// In hexadecimal.
    pub fn fingerprint_text(&self) -> String {
        let bytes = self.fingerprint.iter();
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Keys of the resource that expire exactly then: those of the transaction that created the resource.
pub async fn expiring_at(
    connection: &mut PgConnection,
    resource_id: Uuid,
    expires_at: DateTime<Utc>,
) -> sqlx::Result<Vec<KeyRecord>> {
    sqlx::query_as!(
        KeyRecord,
        r#"select route, key, fingerprint, response_status, created_at, expires_at,
                  xmin::text as "commit!"
           from idempotency_keys where expires_at = $2 and resource_id = $1
           order by expires_at limit $3"#,
        resource_id,
        expires_at,
        ROWS_MAX
    )
    .fetch_all(connection)
    .await
}

/// The last key of the resource that expires then or shortly before.
pub async fn expiring_before(
    connection: &mut PgConnection,
    resource_id: Uuid,
    expires_at: DateTime<Utc>,
) -> sqlx::Result<Option<KeyRecord>> {
    sqlx::query_as!(
        KeyRecord,
        r#"select route, key, fingerprint, response_status, created_at, expires_at, commit as "commit!"
           from (
               select route, key, fingerprint, response_status, created_at, expires_at, resource_id,
                      xmin::text as commit
               from idempotency_keys where expires_at <= $2
               order by expires_at desc limit $3
           ) as latest
           where resource_id = $1 limit 1"#,
        resource_id,
        expires_at,
        EXAMINED_MAX
    )
    .fetch_optional(connection)
    .await
}

/// The key of this principal and route.
pub async fn of_key(
    connection: &mut PgConnection,
    principal_id: &str,
    route: &str,
    key: &str,
) -> sqlx::Result<Option<KeyRecord>> {
    sqlx::query_as!(
        KeyRecord,
        r#"select route, key, fingerprint, response_status, created_at, expires_at,
                  xmin::text as "commit!"
           from idempotency_keys where principal_id = $1 and route = $2 and key = $3"#,
        principal_id,
        route,
        key
    )
    .fetch_optional(connection)
    .await
}
