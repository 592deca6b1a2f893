//! The mails of one order as operators see them: rows with the transactions that last changed them.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

pub struct MailRow {
    pub event_id: Uuid,
    pub mail_type: String,
    pub attempt: i32,
    pub status: String,
    pub tries: i32,
    pub tries_in_doubt: i32,
    pub leased: bool,
    pub last_error: Option<String>,
    pub sent_at: Option<DateTime<Utc>>,
    pub released_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub commit: String,
}

pub async fn mails(
    connection: &mut PgConnection,
    order_id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<MailRow>> {
    sqlx::query_as!(
        MailRow,
        r#"select event_id, mail_type, attempt, status, tries, tries_in_doubt,
                  lease_token is not null as "leased!", last_error, sent_at, released_at, created_at,
                  updated_at, xmin::text as "commit!"
           from receipts where order_id = $1 limit $2"#,
        order_id,
        limit
    )
    .fetch_all(connection)
    .await
}

pub struct ResolutionRow {
    pub mail_type: String,
    pub tries: i32,
    pub action: String,
    pub reason: String,
    pub created_at: DateTime<Utc>,
    pub commit: String,
}

/// What operators decided about the mails of these events.
pub async fn resolutions(
    connection: &mut PgConnection,
    events: &[Uuid],
    limit: i64,
) -> sqlx::Result<Vec<ResolutionRow>> {
    sqlx::query_as!(
        ResolutionRow,
        r#"select mail_type, tries, action, reason, created_at, xmin::text as "commit!"
           from mail_resolutions where event_id = any($1) limit $2"#,
        events,
        limit
    )
    .fetch_all(connection)
    .await
}
