//! Reads new orders and the status of known ones.

use std::collections::HashSet;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::proof::entry::OrderStatus;

/// Orders per page, and pages per step: the history is read in steps of this size.
const PAGE_ROWS: i64 = 5_000;
const PAGES_MAX: usize = 4;
/// An order is stored with the time at which its transaction began, and another one may commit first. So
/// each step reads this much again.
const OVERLAP: TimeDelta = TimeDelta::seconds(1);
/// From time to time a step reads further back, for a transaction that took longer.
const LONG_OVERLAP: TimeDelta = TimeDelta::seconds(120);
const LONG_OVERLAP_EVERY: TimeDelta = TimeDelta::seconds(60);

/// New orders of all principals, by time. The index begins with the principal, so the newest orders of each
/// principal are read separately.
const AFTER: &str = "
    with recursive known as (
        (select principal_id from orders order by principal_id limit 1)
        union all
        select (select principal_id from orders where principal_id > known.principal_id
                order by principal_id limit 1)
        from known where known.principal_id is not null
    )
    select newest.id, newest.status, newest.amount, newest.created_at
    from known cross join lateral (
        select id, status, amount, created_at from orders
        where principal_id = known.principal_id and (created_at, id) > ($1, $2)
        order by created_at, id limit $3
    ) as newest
    order by newest.created_at, newest.id limit $3";

/// One lookup for each id: with a plain join the planner may read the whole table and compare.
const BY_ID: &str = "select found.id, found.status, found.amount, found.created_at
     from unnest($1::uuid[]) as wanted (id) cross join lateral (
         select id, status, amount, created_at from orders where id = any(array[wanted.id])
     ) as found";

/// The statuses of an open order, and of one that has shipped. All others end without money.
const OPEN: [&str; 2] = ["placed", "paid"];
const SHIPPED: &str = "shipped";

type Row = (Uuid, String, i64, DateTime<Utc>);

#[derive(Clone, Debug)]
pub(super) struct OrderRow {
    pub(super) id: Uuid,
    pub(super) status: OrderStatus,
    pub(super) amount: i64,
}

/// How far the orders were read.
#[derive(Default)]
pub(super) struct NewOrders {
    after: (DateTime<Utc>, Uuid),
    newest: Option<DateTime<Utc>>,
    /// Orders after the position that are known already.
    seen: HashSet<Uuid>,
    long_overlap_at: Option<DateTime<Utc>>,
}

impl NewOrders {
    /// The next new orders, and whether these were all.
    pub(super) async fn next(
        &mut self,
        connection: &mut PgConnection,
    ) -> anyhow::Result<(Vec<OrderRow>, bool)> {
        let (mut found, mut after, mut newest) = (Vec::new(), self.start(), self.newest);
        for _ in 0..PAGES_MAX {
            let page: Vec<Row> = sqlx::query_as(AFTER)
                .bind(after.0)
                .bind(after.1)
                .bind(PAGE_ROWS)
                .fetch_all(&mut *connection)
                .await
                .context("reading new orders")?;
            let is_last = (page.len() as i64) < PAGE_ROWS;
            for row in page {
                after = (row.3, row.0);
                newest = newest.max(Some(row.3));
                if self.seen.insert(row.0) {
                    found.push(order(row));
                }
            }
            if is_last {
                self.finish(newest);
                return Ok((found, true));
            }
        }
        self.after = after;
        self.newest = newest;
        self.seen.clear();
        Ok((found, false))
    }

    fn start(&mut self) -> (DateTime<Utc>, Uuid) {
        let now = Utc::now();
        let is_due = self.long_overlap_at.is_none_or(|at| at <= now);
        match self.newest.filter(|_| is_due) {
            Some(newest) => {
                self.long_overlap_at = now.checked_add_signed(LONG_OVERLAP_EVERY);
                (newest - LONG_OVERLAP, Uuid::nil()).min(self.after)
            }
            None => self.after,
        }
    }

    /// Everything was read: the next step begins shortly before the newest order.
    fn finish(&mut self, newest: Option<DateTime<Utc>>) {
        self.newest = newest;
        if let Some(newest) = newest {
            self.after = self.after.max((newest - OVERLAP, Uuid::nil()));
        }
        // A busy system has some thousand orders in the long overlap. To forget them costs a second read.
        if self.seen.len() > 200_000 {
            self.seen.clear();
        }
    }
}

/// The orders with these ids that exist.
pub(super) async fn by_id(
    connection: &mut PgConnection,
    ids: &[Uuid],
) -> anyhow::Result<Vec<OrderRow>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<Row> = sqlx::query_as(BY_ID)
        .bind(ids)
        .fetch_all(connection)
        .await
        .context("reading orders")?;
    Ok(rows.into_iter().map(order).collect())
}

fn order((id, status, amount, _): Row) -> OrderRow {
    let status = match status.as_str() {
        status if OPEN.contains(&status) => OrderStatus::Open,
        SHIPPED => OrderStatus::Shipped,
        _ => OrderStatus::Unpaid,
    };
    OrderRow { id, status, amount }
}

#[cfg(test)]
mod tests {
    use order::domain::Status;

    use super::*;

    /// A new status of the order service must be added here.
    #[test]
    fn every_status_of_the_order_service_has_a_meaning() {
        for status in Status::ALL {
            let row = (
                Uuid::nil(),
                status.as_str().to_owned(),
                1,
                DateTime::UNIX_EPOCH,
            );
            let expected = match status {
                Status::Placed | Status::Paid => OrderStatus::Open,
                Status::Shipped => OrderStatus::Shipped,
                Status::Declined | Status::Failed | Status::Cancelled | Status::Refunded => {
                    OrderStatus::Unpaid
                }
            };
            assert_eq!(order(row).status, expected, "{status}");
        }
    }
}
