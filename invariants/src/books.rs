//! What each service's tables say about orders, money and stock.

use std::collections::BTreeMap;

use anyhow::Context;
use sqlx::PgPool;

/// The provider's books by order.
pub(super) struct Books(BTreeMap<String, Account>);

/// What was taken for one order, and what was given back.
#[derive(Default)]
struct Account {
    charges: i64,
    charged: i64,
    refunded: i64,
    /// Most refunds of any one charge.
    refunds_max: i64,
}

impl Books {
    pub(super) async fn read(psp: &PgPool) -> anyhow::Result<Self> {
        // Refunds count for the order whose charge they give back, whatever their own reference.
        let rows: Vec<(String, i64, i64, i64, i64)> = sqlx::query_as(
            "with back as (
                select charge_id, count(*) as refunds, sum(amount) as amount
                from refunds group by charge_id
             )
             select reference, count(*), sum(charges.amount)::bigint,
                    coalesce(sum(back.amount), 0)::bigint, coalesce(max(back.refunds), 0)
             from charges left join back on back.charge_id = charges.id
             group by reference",
        )
        .fetch_all(psp)
        .await
        .context("reading the PSP's books")?;
        let account = |(order, charges, charged, refunded, refunds_max)| {
            let account = Account {
                charges,
                charged,
                refunded,
                refunds_max,
            };
            (order, account)
        };
        Ok(Self(rows.into_iter().map(account).collect()))
    }

    pub(super) fn is_charged(&self, order: &str) -> bool {
        self.0.contains_key(order)
    }

    pub(super) fn is_refunded(&self, order: &str) -> bool {
        let account = self.0.get(order);
        account.is_some_and(|account| account.refunded > 0)
    }

    pub(super) fn charged_more_than_once(&self) -> impl Iterator<Item = (&str, i64)> {
        let all = self.0.iter();
        all.filter(|(_, account)| account.charges > 1)
            .map(|(order, account)| (order.as_str(), account.charges))
    }

    /// Orders with a charge that was given back more than once.
    pub(super) fn refunded_more_than_once(&self) -> impl Iterator<Item = (&str, i64)> {
        let all = self.0.iter();
        all.filter(|(_, account)| account.refunds_max > 1)
            .map(|(order, account)| (order.as_str(), account.refunds_max))
    }

    /// What the provider has taken and not given back.
    pub(super) fn total(&self) -> i64 {
        let all = self.0.values();
        all.map(|account| account.charged - account.refunded).sum()
    }

    /// Both ways: charges that we do not know of, and captures that the provider does not know of.
    pub(super) fn differences(&self, captured: &BTreeMap<String, i64>) -> Vec<String> {
        let unknown_here = self
            .0
            .iter()
            .filter(|(order, _)| !captured.contains_key(*order));
        let unknown_there = captured.iter().filter(|(order, amount)| {
            self.0
                .get(*order)
                .is_none_or(|account| account.charged != **amount)
        });
        let mut differences: Vec<String> = unknown_here
            .map(|(order, account)| format!("{order}: charged {}, not recorded", account.charged))
            .collect();
        differences.extend(
            unknown_there.map(|(order, amount)| format!("{order}: recorded {amount}, not charged")),
        );
        differences
    }
}

/// Captured attempts in the payment table: order → amount.
pub(super) async fn captured(payment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    pairs(
        payment,
        "select order_id::text, amount from payments where status = 'captured'",
    )
    .await
}

/// Shipments: order → attempt.
pub(super) async fn shipped(fulfilment: &PgPool) -> anyhow::Result<BTreeMap<String, i64>> {
    pairs(
        fulfilment,
        "select order_id::text, attempt::bigint from shipments where status = 'shipped'",
    )
    .await
}

/// SKUs whose reserved pieces are not what the shipments took.
pub(super) async fn stock_that_does_not_add_up(fulfilment: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(
        fulfilment,
        "with taken as (
            select line ->> 'sku' as sku, sum((line ->> 'quantity')::bigint) as quantity
            from shipments, jsonb_array_elements(lines) as line
            where status = 'shipped' group by 1
         )
         select format('%s: %s reserved, %s shipped, %s left',
                       sku, stock.reserved, coalesce(taken.quantity, 0), stock.available)
         from stock left join taken using (sku)
         where stock.reserved <> coalesce(taken.quantity, 0) or stock.available < 0",
    )
    .await
}

/// Every legal way to a state has one length, and the version counts the steps. It starts at 1, and
/// each attempt before this one took two steps: to `declined`, and back to `placed`. From there it
/// is one step to `paid` or `declined` and two to each end; a state that was skipped, because its
/// event came after that of the next, counts as a step. The wish to cancel is one more, whenever
/// it came; without it nothing is `cancelled`.
pub(super) async fn illegal_versions(order: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(
        order,
        "select format('%s is %s at version %s in attempt %s', id, status, version, attempt)
         from orders
         where version <> 2 * attempt - 1
                 + case status when 'placed' then 0 when 'paid' then 1 when 'declined' then 1
                               when 'shipped' then 2 when 'cancelled' then 2
                               when 'refunded' then 2 end
                 + (cancel_requested_at is not null)::integer
            or status = 'cancelled' and cancel_requested_at is null",
    )
    .await
}

/// Orders that something must still happen to. A declined one is at rest until it is paid again;
/// but if it is to be cancelled, it will be.
pub(super) async fn unfinished(order: &PgPool) -> anyhow::Result<Vec<String>> {
    lines(
        order,
        "select format('%s is %s', id, status) from orders
         where status not in ('shipped', 'declined', 'cancelled', 'refunded')
            or status = 'declined' and cancel_requested_at is not null",
    )
    .await
}

pub(super) async fn shipped_orders(order: &PgPool) -> anyhow::Result<i64> {
    let query = "select count(*) from orders where status = 'shipped'";
    sqlx::query_scalar(query)
        .fetch_one(order)
        .await
        .context(query)
}

/// What customers owe: the amounts of orders that are paid for and not refunded.
pub(super) async fn amount_due(order: &PgPool) -> anyhow::Result<i64> {
    let query = "select coalesce(sum(amount), 0)::bigint from orders
                 where status in ('paid', 'shipped')";
    sqlx::query_scalar(query)
        .fetch_one(order)
        .await
        .context(query)
}

/// What was taken for direct charges, which no order stands for.
pub(super) async fn captured_directly(payment: &PgPool) -> anyhow::Result<i64> {
    let query = "select coalesce(sum(amount), 0)::bigint from payments
                 where status = 'captured' and principal_id is not null";
    sqlx::query_scalar(query)
        .fetch_one(payment)
        .await
        .context(query)
}

async fn pairs(pool: &PgPool, query: &'static str) -> anyhow::Result<BTreeMap<String, i64>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(query).fetch_all(pool).await.context(query)?;
    Ok(rows.into_iter().collect())
}

async fn lines(pool: &PgPool, query: &'static str) -> anyhow::Result<Vec<String>> {
    sqlx::query_scalar(query)
        .fetch_all(pool)
        .await
        .context(query)
}
