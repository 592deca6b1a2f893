//! One batch of the relay in the database: what to send, and what became of it.

use std::collections::BTreeSet;

use anyhow::Context as _;
use sqlx::Connection as _;
use uuid::Uuid;

use crate::delivery::Deliveries;
use crate::floors::Floors;
use crate::positions::Minute;
use crate::session::Session;
use crate::store::{InFlight, Row};
use crate::{held, republication, store};

/// Reads the next batch, and which of its orders are held. Releases held orders whose time has come.
pub(crate) async fn read(
    session: &mut Session,
    unavailable: &[i32],
    rows_max: u16,
) -> anyhow::Result<(Vec<Row>, BTreeSet<Uuid>)> {
    let Session {
        connection, floors, ..
    } = session;
    if session.any_held {
        let returned = held::release_due(connection, &floors.shards(), unavailable)
            .await
            .context("releasing held orders")?;
        for row in returned {
            floors.lower(row.shard, row.id, row.created_at);
        }
    }
    let mut until = None;
    if session.republishing {
        let republication = republication::find(connection)
            .await
            .context("reading the republication")?;
        session.republishing = republication.is_some();
        until = republication.map(|it| it.ready_until);
        // Rows below the floors return to the queue.
        floors.reset();
    } else {
        floors.raise(connection).await.context("raising floors")?;
    }
    let rows_max = rows_per_shard(floors, rows_max);
    let rows = store::unpublished(connection, floors, until, rows_max)
        .await
        .context("reading the outbox")?;
    if !rows.is_empty() {
        floors.note_activity();
    }
    let mut held = BTreeSet::new();
    if session.any_held && !rows.is_empty() {
        let subjects: Vec<Uuid> = rows.iter().map(|row| row.subject).collect();
        held = held::among(connection, &subjects)
            .await
            .context("looking for held orders")?
            .into_iter()
            .collect();
    }
    Ok((rows, held))
}

/// Reads the next batch while one is in flight. Only for a session without held orders and without a republication.
/// Returns nothing if a row committed late: then the next step reads it first, from the floors.
pub(crate) async fn read_ahead(
    session: &mut Session,
    in_flight: &InFlight,
    rows_max: u16,
) -> anyhow::Result<Vec<Row>> {
    let Session {
        connection, floors, ..
    } = session;
    let rows_max = rows_per_shard(floors, rows_max);
    store::unpublished_after(connection, floors, in_flight, rows_max)
        .await
        .context("reading ahead in the outbox")
}

fn rows_per_shard(floors: &Floors, rows_max: u16) -> i64 {
    let shards = floors.shards().len().max(1);
    usize::from(rows_max).div_ceil(shards) as i64
}

/// Marks delivered rows and holds stuck ones, in one commit.
pub(crate) async fn record(
    session: &mut Session,
    deliveries: &Deliveries,
    minute: &mut Minute,
) -> anyhow::Result<()> {
    let Deliveries {
        delivered, stuck, ..
    } = deliveries;
    if stuck.is_empty() {
        if !delivered.is_empty() {
            store::mark_published(&mut session.connection, delivered, minute)
                .await
                .context("marking events as published")?;
        }
        return Ok(());
    }
    let mut tx = session
        .connection
        .begin()
        .await
        .context("beginning to record deliveries")?;
    if !delivered.is_empty() {
        store::mark_published(&mut tx, delivered, minute)
            .await
            .context("marking events as published")?;
    }
    held::hold(&mut tx, stuck).await.context("holding orders")?;
    tx.commit().await.context("committing deliveries")?;
    session.any_held = true;
    for (row, obstacle) in stuck {
        if let held::Obstacle::Rejected { reason } = obstacle {
            tracing::error!(
                order_id = %row.subject, event_id = %row.event_id, reason,
                "Kafka rejected the event, its order is held"
            );
        }
    }
    Ok(())
}
