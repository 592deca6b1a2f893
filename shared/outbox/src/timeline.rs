//! The events of one order, for operators.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use steps::{Event, Part, ROWS_MAX, Severity, Step};
use uuid::Uuid;

use crate::enqueue::shard_of;

/// Unpublished events of the order's shard that are examined, the newest first. No index finds them by
/// order.
const QUEUED_EXAMINED_MAX: i64 = 1_000;

const TABLE: &str = "outbox";

/// Adds the order's events that are still in the outbox: stored, published, held.
pub async fn add_steps(connection: &mut PgConnection, part: &mut Part) -> sqlx::Result<()> {
    let published = published(connection, part.order_id).await?;
    part.note_limit(TABLE, published.len());
    for row in &published {
        part.steps.push(stored(row));
        // The row's last change is the relay's mark.
        let published = format!("event {} published", row.event_type);
        let at = row.published_at.unwrap_or(row.created_at);
        let step = Step::new(at, TABLE, published).commit(Some(row.commit.clone()));
        part.steps.push(step.fact("event id", row.event_id));
    }
    let held = held(connection, part.order_id).await?;
    let held = held.iter().map(|row| {
        let step = stored(row).severity(Severity::Fault);
        step.fact("held", "Kafka does not take it now")
    });
    part.steps.extend(held);
    let queued = queued(connection, part.order_id).await?;
    part.steps.extend(queued.iter().map(stored));
    if has_longer_queue(connection, part.order_id).await? {
        part.notes.push(format!(
            "outbox: more than {QUEUED_EXAMINED_MAX} events wait in this shard, and only the newest were \
             examined"
        ));
    }
    Ok(())
}

struct Row {
    event_id: Uuid,
    event_type: String,
    created_at: DateTime<Utc>,
    published_at: Option<DateTime<Utc>>,
    commit: String,
}

/// The transaction that stored the event is not known: the relay's mark replaced its id.
fn stored(row: &Row) -> Step {
    let what = format!("event {} stored", row.event_type);
    Step::new(row.created_at, TABLE, what).event(Event {
        id: row.event_id,
        event_type: row.event_type.clone(),
        published_at: row.published_at,
    })
}

async fn published(connection: &mut PgConnection, order_id: Uuid) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"select event_id, event_type, created_at, published_at, xmin::text as "commit!"
           from outbox where subject = $1 and published_at is not null limit $2"#,
        order_id,
        ROWS_MAX
    )
    .fetch_all(connection)
    .await
}

async fn held(connection: &mut PgConnection, order_id: Uuid) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"select event_id, event_type, created_at, published_at, xmin::text as "commit!"
           from outbox where subject = $1 and held limit $2"#,
        order_id,
        ROWS_MAX
    )
    .fetch_all(connection)
    .await
}

/// Reads the relay's queue of the order's shard from its end.
async fn queued(connection: &mut PgConnection, order_id: Uuid) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"select event_id, event_type, created_at, published_at, commit as "commit!"
           from (
               select event_id, event_type, subject, created_at, published_at, xmin::text as commit
               from outbox
               where published_at is null and not held
                 and (shard::bigint << 48) + id >= $2::bigint << 48
                 and (shard::bigint << 48) + id < ($2::bigint + 1) << 48
               order by (shard::bigint << 48) + id desc
               limit $3
           ) as newest
           where subject = $1"#,
        order_id,
        i64::from(shard_of(order_id)),
        QUEUED_EXAMINED_MAX
    )
    .fetch_all(connection)
    .await
}

async fn has_longer_queue(connection: &mut PgConnection, order_id: Uuid) -> sqlx::Result<bool> {
    let next = sqlx::query_scalar!(
        r#"select 1 as "next!" from outbox
           where published_at is null and not held
             and (shard::bigint << 48) + id >= $1::bigint << 48
             and (shard::bigint << 48) + id < ($1::bigint + 1) << 48
           order by (shard::bigint << 48) + id desc
           offset $2 limit 1"#,
        i64::from(shard_of(order_id)),
        QUEUED_EXAMINED_MAX
    )
    .fetch_optional(connection)
    .await?;
    Ok(next.is_some())
}
