//! Where the sender starts to read its queue.
//!
//! While any snapshot is held open (a dump, a query on a standby), the index keeps the entries of
//! mails that were sent long ago. Without a floor every step would read them all.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use leases::Clock;
use service_kit::database::{Horizon, horizon};
use sqlx::PgConnection;

use crate::store::receipts;

/// Time between two moves of the floor.
const MOVE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the queue is read from its beginning. This finds mails below the floor, which a store
/// whose clock was set back may write.
const FULL_SCAN_INTERVAL: Duration = Duration::from_secs(60);
/// The floor stays this far behind the store's clock, so that small corrections of the clock do not
/// matter.
const CLOCK_MARGIN: TimeDelta = TimeDelta::seconds(1);

/// No pending mail is due before the floor.
#[derive(Debug)]
pub(super) struct Floor {
    at: Option<DateTime<Utc>>,
    horizon: Horizon<DateTime<Utc>>,
    /// Counts suspension: after it, the store's clock is far ahead of what this process has seen.
    clock: Clock,
    next_move: Duration,
    next_full_scan: Duration,
}

impl Floor {
    pub(super) fn new(clock: Clock) -> Self {
        let now = clock.now();
        Self {
            at: None,
            horizon: Horizon::default(),
            clock,
            next_move: now,
            next_full_scan: now + FULL_SCAN_INTERVAL,
        }
    }

    /// The time from which this step must read. `None` is the beginning.
    pub(super) async fn current(
        &mut self,
        connection: &mut PgConnection,
    ) -> anyhow::Result<Option<DateTime<Utc>>> {
        let now = self.clock.now();
        if now >= self.next_full_scan {
            self.next_full_scan = now + FULL_SCAN_INTERVAL;
            self.at = None;
        } else if now >= self.next_move {
            self.next_move = now + MOVE_INTERVAL;
            self.advance(connection).await.context("moving the floor")?;
        }
        Ok(self.at)
    }

    /// Moves the floor to the first pending mail, but not past the horizon: before it no mail can
    /// become visible any more.
    async fn advance(&mut self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let now = receipts::clock(connection).await?;
        let writers = horizon::writers(connection, receipts::TABLE).await?;
        let Some(mark) = self.horizon.observe(now, writers) else {
            return Ok(());
        };
        let mark = mark - CLOCK_MARGIN;
        let first = receipts::first_due(connection, self.at).await?;
        let floor = first.map_or(mark, |first| first.min(mark));
        self.at = self.at.max(Some(floor));
        Ok(())
    }
}
