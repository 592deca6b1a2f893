//! The messages of one order that a service processed or parked, for operators.

use std::collections::HashMap;

use events::{EventType, event_ids};
use sqlx::PgConnection;
use steps::{Event, Part, ROWS_MAX, Severity, Step};
use uuid::Uuid;

/// Attempts whose messages are looked for: the newest ones. Each costs one lookup per event type.
const ATTEMPTS_MAX: i32 = 20;

/// Adds the order's processed and parked messages. `attempts` is the number of the latest attempt.
///
/// Processed messages have no column for the order. The ids of an order's events follow from the order, so
/// they are looked up one by one.
pub async fn add_steps(
    connection: &mut PgConnection,
    group: &str,
    attempts: i32,
    part: &mut Part,
) -> sqlx::Result<()> {
    let last = attempts.max(1);
    let first = (last - ATTEMPTS_MAX + 1).max(1);
    let known: HashMap<Uuid, (EventType, i32)> = (first..=last)
        .flat_map(|attempt| {
            let ids = event_ids(part.order_id, attempt);
            ids.map(move |(event_type, id)| (id, (event_type, attempt)))
        })
        .collect();
    add_processed(connection, group, &known, part).await?;
    add_parked(connection, group, part).await
}

async fn add_processed(
    connection: &mut PgConnection,
    group: &str,
    known: &HashMap<Uuid, (EventType, i32)>,
    part: &mut Part,
) -> sqlx::Result<()> {
    let ids: Vec<Uuid> = known.keys().copied().collect();
    // One lookup for each id, as a range that both columns of the primary key bound. With a list or a plain
    // `=`, a plan made on an empty table may read all messages of the group.
    let rows = sqlx::query!(
        r#"select found.message_id, found.processed_at, found.commit as "commit!"
           from unnest($2::uuid[]) as wanted (id) cross join lateral (
               select message_id, processed_at, xmin::text as commit from processed_messages
               where consumer_group = $1 and message_id between wanted.id and wanted.id
               order by message_id limit 1
           ) as found"#,
        group,
        &ids
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let Some((event_type, attempt)) = known.get(&row.message_id) else {
            continue;
        };
        // The row is never updated, so its transaction is the one that handled the message.
        let what = format!("{event_type} processed");
        let step = Step::new(row.processed_at, "processed_messages", what);
        let step = step.commit(Some(row.commit)).event(Event {
            id: row.message_id,
            event_type: event_type.to_string(),
            published_at: None,
        });
        let step = step.fact("consumer group", group).fact("attempt", attempt);
        part.steps.push(step);
    }
    Ok(())
}

async fn add_parked(
    connection: &mut PgConnection,
    group: &str,
    part: &mut Part,
) -> sqlx::Result<()> {
    let rows = sqlx::query!(
        r#"select id, message_id, event_type, failed, cause, tries, parked_at, xmin::text as "commit!"
           from parked_messages where consumer_group = $1 and subject = $2
           order by id limit $3"#,
        group,
        part.order_id,
        ROWS_MAX
    )
    .fetch_all(connection)
    .await?;
    part.note_limit("parked_messages", rows.len());
    for row in rows {
        let name = row.event_type.as_deref().unwrap_or("unreadable message");
        let what = match row.failed {
            true => format!("{name} parked: it failed"),
            false => format!("{name} parked behind a failed message"),
        };
        let step = Step::new(row.parked_at, "parked_messages", what)
            .severity(Severity::Fault)
            .fact("parked id", row.id)
            .fact("cause", row.cause)
            .fact("tries", row.tries);
        // A redrive that fails again counts its try in the row.
        let step = step.commit((row.tries == 0).then_some(row.commit));
        let event = row.message_id.zip(row.event_type);
        part.steps.push(match event {
            Some((id, event_type)) => step.event(Event {
                id,
                event_type,
                published_at: None,
            }),
            None => step,
        });
    }
    Ok(())
}
