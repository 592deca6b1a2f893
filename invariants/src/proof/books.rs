//! Which orders may have changed in the provider's books.

use std::collections::{BTreeSet, HashSet};

use anyhow::Context as _;
use chrono::Utc;
use sqlx::PgConnection;
use uuid::Uuid;

/// Rows per page, and pages per step: the history is read in steps of this size.
const PAGE_ROWS: i64 = 5_000;
const PAGES_MAX: usize = 4;
/// The provider assigns an id before it commits, so ids appear a little out of order. Each step reads
/// this much again. A row that comes even later is found with its order, or by the walk.
const OVERLAP_MS: u64 = 1_000;
/// Ids begin with their time. The provider did not create an id that is further in the future than this.
const FUTURE_MS: u64 = 24 * 60 * 60 * 1_000;
/// Most rows with such an id, and most pending rows, that one step reads.
const UNUSUAL_MAX: i64 = 1_000;
/// Charges of the walk over all books that one step reads.
const WALK_ROWS: i64 = 100;

const CHARGES: &str = "select id, reference from charges where id > $1 and id < $2
     order by id limit $3";
const REFUNDS: &str = "select refunds.id, charges.reference from (
         select id, charge_id from refunds where id > $1 and id < $2 order by id limit $3
     ) as refunds join charges on charges.id = refunds.charge_id order by refunds.id";
const PENDING_CHARGES: &str = "select id, reference from charges where status = 'pending'
     order by settles_at limit $1";
const PENDING_REFUNDS: &str = "select refunds.id, charges.reference from (
         select id, charge_id from refunds where status = 'pending' order by settles_at limit $1
     ) as refunds join charges on charges.id = refunds.charge_id";

type Row = (Uuid, String);

/// How far the books were read.
#[derive(Default)]
pub(super) struct Books {
    charges: Position,
    refunds: Position,
    /// Orders with a pending charge or refund, as of the last step. One that is no longer pending has
    /// changed.
    pending: BTreeSet<String>,
    walk_after: Uuid,
}

impl Books {
    /// Adds the orders whose charges or refunds may have changed. Returns whether all new rows were read.
    pub(super) async fn changed(
        &mut self,
        psp: &mut PgConnection,
        touched: &mut BTreeSet<String>,
    ) -> anyhow::Result<bool> {
        let charges = self.charges.next(psp, CHARGES, touched).await?;
        let refunds = self.refunds.next(psp, REFUNDS, touched).await?;
        let mut pending = BTreeSet::new();
        for query in [PENDING_CHARGES, PENDING_REFUNDS] {
            let rows: Vec<Row> = sqlx::query_as(query)
                .bind(UNUSUAL_MAX)
                .fetch_all(&mut *psp)
                .await
                .context("reading pending charges and refunds")?;
            pending.extend(rows.into_iter().map(|row| row.1));
        }
        touched.extend(self.pending.union(&pending).cloned());
        self.pending = pending;
        self.walk(psp, touched).await?;
        Ok(charges && refunds)
    }

    async fn walk(
        &mut self,
        psp: &mut PgConnection,
        touched: &mut BTreeSet<String>,
    ) -> anyhow::Result<()> {
        let rows: Vec<Row> = sqlx::query_as(CHARGES)
            .bind(self.walk_after)
            .bind(Uuid::max())
            .bind(WALK_ROWS)
            .fetch_all(psp)
            .await
            .context("walking over the provider's charges")?;
        let is_end = (rows.len() as i64) < WALK_ROWS;
        let last = rows.last().map_or(Uuid::nil(), |row| row.0);
        self.walk_after = if is_end { Uuid::nil() } else { last };
        touched.extend(rows.into_iter().map(|row| row.1));
        Ok(())
    }
}

/// A position in a table whose ids begin with their time (UUIDv7).
#[derive(Default)]
struct Position {
    after: Uuid,
    /// Rows after the position that were read before.
    seen: HashSet<Uuid>,
}

impl Position {
    /// Adds the orders of new rows, and returns whether these were all.
    async fn next(
        &mut self,
        psp: &mut PgConnection,
        query: &'static str,
        touched: &mut BTreeSet<String>,
    ) -> anyhow::Result<bool> {
        let now_ms = Utc::now().timestamp_millis().unsigned_abs();
        let future = id_at(now_ms + FUTURE_MS);
        self.page(psp, query, (future, Uuid::max()), UNUSUAL_MAX, touched)
            .await?;
        let mut after = self.after;
        for _ in 0..PAGES_MAX {
            let range = (after, future);
            let (rows, last) = self.page(psp, query, range, PAGE_ROWS, touched).await?;
            after = last.unwrap_or(after);
            if rows < PAGE_ROWS {
                // Never past the present: an id from the future must not hide those that follow it.
                let end_ms = time_ms(after).min(now_ms);
                let end = id_at(end_ms.saturating_sub(OVERLAP_MS));
                self.after = self.after.max(end);
                let after = self.after;
                self.seen.retain(|id| *id > after);
                return Ok(true);
            }
        }
        self.after = after;
        self.seen.retain(|id| *id > after);
        Ok(false)
    }

    /// Reads one page: the number of rows, and the last id.
    async fn page(
        &mut self,
        psp: &mut PgConnection,
        query: &'static str,
        (after, until): (Uuid, Uuid),
        limit: i64,
        touched: &mut BTreeSet<String>,
    ) -> anyhow::Result<(i64, Option<Uuid>)> {
        let rows: Vec<Row> = sqlx::query_as(query)
            .bind(after)
            .bind(until)
            .bind(limit)
            .fetch_all(psp)
            .await
            .context("reading new rows of the provider's books")?;
        let (count, last) = (rows.len() as i64, rows.last().map(|row| row.0));
        let new = rows.into_iter().filter(|row| self.seen.insert(row.0));
        touched.extend(new.map(|row| row.1));
        Ok((count, last))
    }
}

/// The lowest id of this time.
fn id_at(ms: u64) -> Uuid {
    Uuid::from_u128(u128::from(ms) << 80)
}

/// The time of an id: its first 48 bits.
fn time_ms(id: Uuid) -> u64 {
    (id.as_u128() >> 80) as u64
}

#[cfg(test)]
mod tests {
    use psp::domain::{charge, refund};

    use super::*;
    use crate::status_literals::assert_known;

    #[test]
    fn pending_literals_exist_at_the_provider() {
        assert_known(PENDING_CHARGES, &[charge::Status::Pending.as_str()]);
        assert_known(PENDING_REFUNDS, &[refund::Status::Pending.as_str()]);
    }

    #[test]
    fn id_begins_with_its_time() {
        let ms = 1_763_452_800_123;
        assert_eq!(time_ms(id_at(ms)), ms);
        let id: Uuid = "019a94d2-2d7b-7000-8000-000000000001".parse().unwrap();
        assert!(id_at(time_ms(id)) <= id && id < id_at(time_ms(id) + 1));
    }
}
